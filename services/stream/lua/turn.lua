-- worker, how often at most, how long at most
local turn = call('HMGET', STATE, 'turn_until', 'turn_ended')
if turn[1] and now < number(turn[1]) then return {'ok', 0} end
if turn[2] and now < turn[2] + ARGV[3] then return {'ok', 0} end
call('HSET', STATE, 'turn', ARGV[2], 'turn_until', format('%.6f', now + ARGV[4]))
return {'ok', 1}
