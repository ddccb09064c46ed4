-- the last epoch heard of, the topic's id ('' to keep it), offsets lost, triples of partition, start, end
local epoch = call('HGET', STATE, 'epoch')
if not epoch then return {'not-open', ''} end
epoch = math.max(epoch + 1, ARGV[2] + 1, math.floor(now * 1000))
local anew = {}
for i = 5, #ARGV, 3 do anew[ARGV[i]] = true end
for _, record in ipairs(call('HVALS', WORKERS)) do
  for partition, start, stop, lapses in gmatch(record, '%d+ (%d+) (%d+) (%d+) (%d+),') do
    if not anew[partition] then
      call('HINCRBY', STATE, 'repeated', format('%.0f', stop - start))
      take_back(partition, number(start), number(stop), lapses)
    end
  end
end
call('DEL', WORKERS)
call('HSET', STATE, 'epoch', format('%.0f', epoch), 'oldest', 0)
if ARGV[3] ~= '' then call('HSET', STATE, 'topic', ARGV[3]) end
if ARGV[4] ~= '0' then call('HINCRBY', STATE, 'lost', ARGV[4]) end
call('HDEL', STATE, 'committed', 'heard', 'check')
for i = 5, #ARGV, 3 do
  local partition, start, stop = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if number(stop) < number(start) then stop = start end
  local count = stop - start
  local since = count > 0 and format('%.6f', now) or '-'
  call('HSET', PARTITIONS, partition, start .. ' ' .. stop .. ' ' .. since .. ';;')
  if count > 0 then
    call('ZADD', UNLEASED, format('%.0f', count), partition)
    call('ZADD', WAITING, since, partition)
  end
end
return {'ok'}
