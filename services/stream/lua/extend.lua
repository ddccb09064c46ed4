-- pairs of partition, end
local partitions = {}
for i = 2, #ARGV, 2 do partitions[#partitions + 1] = ARGV[i] end
local books = call('HMGET', PARTITIONS, unpack(partitions))
for i = 1, #partitions do
  if not books[i] then return {'not-open', partitions[i]} end
end
for i, partition in ipairs(partitions) do
  local next_offset, stop, since, rest = match(books[i], '^(%d+) (%d+) ([^;]+)(;.*)$')
  if number(ARGV[2 * i + 1]) > number(stop) then
    if since == '-' then since = format('%.6f', now) end
    local book = next_offset .. ' ' .. ARGV[2 * i + 1] .. ' ' .. since .. rest
    call('HSET', PARTITIONS, partition, book)
    call('ZADD', UNLEASED, format('%.0f', unleased(book)), partition)
    call('ZADD', WAITING, 'NX', since, partition)
  end
end
return {'ok'}
