-- worker, '1' when the group took the watermark
if call('HGET', STATE, 'turn') == ARGV[2] then
  call('HDEL', STATE, 'turn', 'turn_until')
  call('HSET', STATE, 'turn_ended', format('%.6f', now))
  if ARGV[3] == '1' then call('HSET', STATE, 'committed', 1) end
end
return {'ok'}
