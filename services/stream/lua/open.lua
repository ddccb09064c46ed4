-- the last epoch heard of, the topic's id, pairs of partition, start
if call('HEXISTS', STATE, 'epoch') == 0 then
  local epoch = math.max(number(ARGV[2]) + 1, math.floor(now * 1000))
  call('HSET', STATE, 'epoch', format('%.0f', epoch), 'tokens', 0)
end
if ARGV[3] ~= '' then call('HSETNX', STATE, 'topic', ARGV[3]) end
for i = 4, #ARGV, 2 do
  call('HSETNX', PARTITIONS, ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 1] .. ' -;;')
end
return {'ok'}
