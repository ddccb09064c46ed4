-- The ledger of one job: shuffler/ledger.py, kept in Redis. That file says what each operation
-- promises; this one must do the same (tests/stream/test_ledger_contract.py holds them together).
--
-- KEYS   state       hash    epoch, tokens, trained, late, repeated, lost, turn...
--        partitions  hash    n:P next, e:P end, r:P returned ranges "start-stop ..." in order
--        unleased    zset    P -> offsets that may be leased now; only where there are some
--        waiting     zset    P -> since when nobody has taken from it; the same members
--        leases      hash    token -> "P start end worker"
--        holders     hash    h:W tokens "1 2 ...", p:W the partition W read last, s:W the token it settled last
--        alive       zset    W -> until when its leases last
-- ARGV   operation, time ('' for the server's), then the operation's own
-- Reply  {'ok', ...}, {'lost'} or {'not-open', P or ''}

local STATE, PARTITIONS, UNLEASED, WAITING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local LEASES, HOLDERS, ALIVE = KEYS[5], KEYS[6], KEYS[7]
local call = redis.call
local CHUNK = 1000 -- Lua unpacks no more than some thousands

local function whole(number) return string.format('%.0f', number) end
local function seconds(number) return string.format('%.6f', number) end

local now = tonumber(ARGV[2])
if not now then
  local time = call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function read_ranges(text)
  local ranges = {}
  for start, stop in string.gmatch(text or '', '(%d+)-(%d+)') do
    ranges[#ranges + 1] = {tonumber(start), tonumber(stop)}
  end
  return ranges
end

local function write_ranges(partition, ranges)
  if #ranges == 0 then call('HDEL', PARTITIONS, 'r:' .. partition) return end
  local text = {}
  for i, range in ipairs(ranges) do text[i] = whole(range[1]) .. '-' .. whole(range[2]) end
  call('HSET', PARTITIONS, 'r:' .. partition, table.concat(text, ' '))
end

local function take_back(partition, start, stop)
  local ranges = read_ranges(call('HGET', PARTITIONS, 'r:' .. partition))
  ranges[#ranges + 1] = {start, stop}
  table.sort(ranges, function(a, b) return a[1] < b[1] end)
  write_ranges(partition, ranges)
  call('ZINCRBY', UNLEASED, whole(stop - start), partition)
  call('ZADD', WAITING, '-inf', partition)
end

local function read_lease(text)
  local partition, start, stop, worker = string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
  return {partition = partition, start = tonumber(start), stop = tonumber(stop), worker = worker}
end

local function drop_lease(token, worker)
  call('HDEL', LEASES, token)
  local kept = {}
  for other in string.gmatch(call('HGET', HOLDERS, 'h:' .. worker) or '', '%d+') do
    if other ~= token then kept[#kept + 1] = other end
  end
  call('HSET', HOLDERS, 'h:' .. worker, table.concat(kept, ' '), 's:' .. worker, token)
end

local function forgive_deafness(ttl)
  local heard = call('ZREVRANGE', ALIVE, 0, 0, 'WITHSCORES')[2]
  if heard and tonumber(heard) - now < ttl / 2 then
    for _, worker in ipairs(call('ZRANGE', ALIVE, 0, -1)) do
      call('ZADD', ALIVE, seconds(now + ttl), worker)
    end
  end
end

local function expire()
  for _, worker in ipairs(call('ZRANGEBYSCORE', ALIVE, '-inf', seconds(now))) do
    for token in string.gmatch(call('HGET', HOLDERS, 'h:' .. worker) or '', '%d+') do
      local lease = read_lease(call('HGET', LEASES, token))
      call('HINCRBY', STATE, 'repeated', whole(lease.stop - lease.start))
      call('HDEL', LEASES, token)
      take_back(lease.partition, lease.start, lease.stop)
    end
    call('HDEL', HOLDERS, 'h:' .. worker, 'p:' .. worker, 's:' .. worker)
    call('ZREM', ALIVE, worker)
  end
end

local function most_of(partitions)
  local most, count = nil, 0
  for first = 1, #partitions, CHUNK do
    local last = math.min(first + CHUNK - 1, #partitions)
    for i, score in ipairs(call('ZMSCORE', UNLEASED, unpack(partitions, first, last))) do
      local partition, here = partitions[first + i - 1], tonumber(score or 0)
      if here > count or (here == count and here > 0 and tonumber(partition) > tonumber(most)) then
        most, count = partition, here
      end
    end
  end
  if most then return most, count, false end
  local top = call('ZREVRANGE', UNLEASED, 0, 0, 'WITHSCORES')
  return top[1], tonumber(top[2] or 0), true
end

local function choose(worker, samples, prefer, patience)
  local overdue = call('ZRANGEBYSCORE', WAITING, '-inf', seconds(now - patience), 'LIMIT', 0, 1)[1]
  if overdue then return overdue end
  local most, count, anywhere = most_of(prefer)
  local last = call('HGET', HOLDERS, 'p:' .. worker)
  if not (most and last) then return most end
  local at_home = anywhere
  for _, partition in ipairs(prefer) do at_home = at_home or partition == last end
  local here = tonumber(call('ZSCORE', UNLEASED, last) or 0)
  if at_home and here > 0 and here >= math.min(samples, count / 2) then return last end
  return most
end

local function take(partition, samples)
  local book = call('HMGET', PARTITIONS, 'n:' .. partition, 'e:' .. partition, 'r:' .. partition)
  local start, stop
  local ranges = read_ranges(book[3])
  if #ranges > 0 then
    start, stop = ranges[1][1], math.min(ranges[1][2], ranges[1][1] + samples)
    if stop < ranges[1][2] then ranges[1][1] = stop else table.remove(ranges, 1) end
    write_ranges(partition, ranges)
  else
    start = tonumber(book[1])
    stop = math.min(tonumber(book[2]), start + samples)
    call('HSET', PARTITIONS, 'n:' .. partition, whole(stop))
  end
  local left = tonumber(call('ZINCRBY', UNLEASED, whole(start - stop), partition))
  if left == 0 then
    call('ZREM', UNLEASED, partition)
    call('ZREM', WAITING, partition)
  elseif #ranges == 0 then
    call('ZADD', WAITING, seconds(now), partition)
  end
  return start, stop
end

-- token, epoch, the lease as `leases` has it, its worker, trained, late, lost.
-- Gives the operation's reply, and the lease when it was settled just now.
local function settle(token, epoch, text, worker, trained, late, lost)
  if call('HGET', STATE, 'epoch') ~= epoch then return {'lost'} end
  if call('HGET', HOLDERS, 's:' .. worker) == token then return {'ok'} end
  -- A server restored from an older copy gives tokens again: all of the lease must be the same.
  if call('HGET', LEASES, token) ~= text then return {'lost'} end
  drop_lease(token, worker)
  call('HINCRBY', STATE, 'trained', trained)
  if late ~= '0' then call('HINCRBY', STATE, 'late', late) end
  if lost ~= '0' then call('HINCRBY', STATE, 'lost', lost) end
  return {'ok'}, read_lease(text)
end

local operations = {}

-- the last epoch heard of, pairs of partition, start
function operations.open()
  if call('HEXISTS', STATE, 'epoch') == 0 then
    local epoch = math.max(tonumber(ARGV[3]) + 1, math.floor(now * 1000))
    call('HSET', STATE, 'epoch', whole(epoch), 'tokens', 0)
  end
  for i = 4, #ARGV, 2 do
    if call('HSETNX', PARTITIONS, 'n:' .. ARGV[i], ARGV[i + 1]) == 1 then
      call('HSET', PARTITIONS, 'e:' .. ARGV[i], ARGV[i + 1])
    end
  end
  return {'ok'}
end

-- pairs of partition, end
function operations.extend()
  local fields = {}
  for i = 3, #ARGV, 2 do fields[#fields + 1] = 'e:' .. ARGV[i] end
  local ends = call('HMGET', PARTITIONS, unpack(fields))
  for i = 1, #fields do
    if not ends[i] then return {'not-open', ARGV[1 + 2 * i]} end
  end
  for i = 1, #fields do
    local partition, more = ARGV[1 + 2 * i], tonumber(ARGV[2 + 2 * i]) - tonumber(ends[i])
    if more > 0 then
      call('HSET', PARTITIONS, fields[i], ARGV[2 + 2 * i])
      call('ZINCRBY', UNLEASED, whole(more), partition)
      call('ZADD', WAITING, 'NX', seconds(now), partition)
    end
  end
  return {'ok'}
end

-- worker, ttl, patience, samples, tokens that the worker knows of " 1 2 ", preferred partitions
function operations.acquire()
  local epoch = call('HGET', STATE, 'epoch')
  if not epoch then return {'not-open', ''} end
  local worker, samples, prefer = ARGV[3], tonumber(ARGV[6]), {}
  for i = 8, #ARGV do prefer[#prefer + 1] = ARGV[i] end
  local ttl = tonumber(ARGV[4])
  forgive_deafness(ttl)
  expire()
  local until_s = seconds(now + ttl)
  call('ZADD', ALIVE, until_s, worker)
  local held = call('HGET', HOLDERS, 'h:' .. worker) or ''
  for token in string.gmatch(held, '%d+') do
    if not string.find(ARGV[7], ' ' .. token .. ' ', 1, true) then
      -- The reply that gave it was lost on the way: give it again, or it would be held for ever.
      local lease = read_lease(call('HGET', LEASES, token))
      return {'ok', lease.partition, whole(lease.start), whole(lease.stop), token, epoch, until_s}
    end
  end
  local partition = choose(worker, samples, prefer, tonumber(ARGV[5]))
  if not partition then return {'ok'} end
  local start, stop = take(partition, samples)
  local token = whole(call('HINCRBY', STATE, 'tokens', 1))
  call('HSET', LEASES, token, table.concat({partition, whole(start), whole(stop), worker}, ' '))
  call('HSET', HOLDERS, 'h:' .. worker, held .. ' ' .. token, 'p:' .. worker, partition)
  return {'ok', partition, whole(start), whole(stop), token, epoch, until_s}
end

-- worker, ttl
function operations.renew()
  if call('HEXISTS', STATE, 'epoch') == 0 then return {'not-open', ''} end
  local ttl = tonumber(ARGV[4])
  forgive_deafness(ttl)
  call('ZADD', ALIVE, seconds(now + ttl), ARGV[3])
  return {'ok'}
end

-- what `settle` takes
function operations.complete()
  return (settle(unpack(ARGV, 3, 9)))
end

-- what `settle` takes, upto
function operations.release()
  local reply, lease = settle(unpack(ARGV, 3, 9))
  local upto = tonumber(ARGV[10])
  if lease and upto < lease.stop then take_back(lease.partition, upto, lease.stop) end
  return reply
end

-- worker, how often at most, how long at most
function operations.turn()
  local turn = call('HMGET', STATE, 'turn_until', 'turn_ended')
  if turn[1] and now < tonumber(turn[1]) then return {'ok', 0} end
  if turn[2] and now < tonumber(turn[2]) + tonumber(ARGV[4]) then return {'ok', 0} end
  call('HSET', STATE, 'turn', ARGV[3], 'turn_until', seconds(now + tonumber(ARGV[5])))
  return {'ok', 1}
end

-- worker
function operations.turn_end()
  if call('HGET', STATE, 'turn') == ARGV[3] then
    call('HDEL', STATE, 'turn', 'turn_until')
    call('HSET', STATE, 'turn_ended', seconds(now))
  end
  return {'ok'}
end

function operations.progress()
  if call('HEXISTS', STATE, 'epoch') == 0 then return {'not-open', ''} end
  return {'ok', call('HGETALL', STATE), call('HGETALL', PARTITIONS), call('HVALS', LEASES)}
end

return operations[ARGV[1]]()
