-- worker, token, lease "P start stop lapses", epoch, trained, late, lost, upto ('' for all of it)
local worker, token, lease, epoch = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local verdict, left = settle(call('HGET', WORKERS, worker), token, lease, epoch, call('HGET', STATE, 'epoch'))
if verdict == 'lost' then return {'lost'} end
if verdict == 'before' then return {'ok'} end
call('HSET', WORKERS, worker, left)
for i, total in ipairs({'trained', 'late', 'lost'}) do
  if ARGV[5 + i] ~= '0' then call('HINCRBY', STATE, total, ARGV[5 + i]) end
end
local upto = number(ARGV[9])
if upto then
  local partition, stop, lapses = match(lease, '^(%d+) %d+ (%d+) (%d+)$')
  if upto < number(stop) then take_back(partition, upto, number(stop), lapses) end
end
return {'ok'}
