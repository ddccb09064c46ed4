-- worker, ttl, within
local ttl = number(ARGV[3])
local state = call('HMGET', STATE, 'epoch', 'heard', 'check')
if not state[1] then return {'not-open', ''} end
local check = number(state[3] or 0)
if state[2] and now - state[2] > ttl / 2 then check = forgive(ttl) end
local record = call('HGET', WORKERS, ARGV[2]) or '0 0 -;'
local settled, last, held = match(record, '^%S+ (%S+) ([^;]+)(;.*)$')
local by = math.min(now + ARGV[4], number(match(last, '^by%-(.+)$')) or math.huge)
local until_s = math.min(now + ttl, by)
call('HSET', WORKERS, ARGV[2], format('%.6f %s by-%.6f', until_s, settled, by) .. held)
call('HSET', STATE, 'heard', format('%.6f', now))
if until_s < check then call('HSET', STATE, 'check', format('%.6f', until_s)) end
return {'ok'}
