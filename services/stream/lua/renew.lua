-- worker, ttl
local ttl = number(ARGV[3])
local state = call('HMGET', STATE, 'epoch', 'heard')
if not state[1] then return {'not-open', ''} end
if state[2] and now - state[2] > ttl / 2 then forgive(ttl) end
local record = call('HGET', WORKERS, ARGV[2])
local rest = record and match(record, '^%S+(.*)$') or ' 0 -;'
call('HSET', WORKERS, ARGV[2], format('%.6f', now + ttl) .. rest)
call('HSET', STATE, 'heard', format('%.6f', now))
return {'ok'}
