-- The ledger of one job: shuffler/ledger.py, kept in Redis. That file says what each operation
-- promises; the scripts here must do the same (tests/stream/test_ledgers_agree.py holds them
-- together). This part stands before every operation. A call into the server costs far more than
-- Lua itself: what changes together lies in one value, and an operation reads and writes it once.
--
-- KEYS   state       hash  epoch, tokens, trained, late, repeated, lost, topic, turn...;
--                          heard: when anybody was heard last; check: before this time no lease
--                          lapses; oldest: nobody has waited since before this time;
--                          behind: how much later it is here than the clock says
--        partitions  hash  P -> "next end since;start-stop*lapses ...;start-stop ...": what may be
--                          leased, since when nobody has taken of it ('-' when there is nothing),
--                          what came back, what was given up
--        unleased    zset  P -> offsets that may be leased, or more: put right when looked at
--        waiting     zset  P -> since when nobody has taken from it, or earlier: likewise
--        workers     hash  W -> "until settled last;token P start stop lapses,...": until when it
--                          counts as alive, the token it settled last, the partition it read last
--                          ('by-T' of one that leaves: nothing of it lasts beyond T), what it holds
-- ARGV   time ('' for the server's), then the operation's own
-- Reply  {'ok', ...}, {'lost'} or {'not-open', P or ''}

local STATE, PARTITIONS, UNLEASED, WAITING, WORKERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call, format, match, gmatch, number = redis.call, string.format, string.match, string.gmatch, tonumber

local now = number(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
-- Time here never goes back, though the clock is set back or is another server's that has taken over.
local clock = call('HMGET', STATE, 'heard', 'behind')
if clock[2] then now = now + clock[2] end
if clock[1] and clock[1] - now > 1 then
  call('HSET', STATE, 'behind', format('%.6f', (clock[2] or 0) + clock[1] - now))
  now = number(clock[1])
end

local function unleased(book)
  local next_offset, stop, returned = match(book, '^(%d+) (%d+) [^;]+;([^;]*)')
  local count = stop - next_offset
  if returned ~= '' then
    for first, beyond in gmatch(returned, '(%d+)%-(%d+)') do count = count + beyond - first end
  end
  return count
end

local function take_back(partition, start, stop, lapses)
  local offsets, returned, given_up =
    match(call('HGET', PARTITIONS, partition), '^(%d+ %d+) [^;]+;([^;]*);(.*)$')
  local ranges, placed = {}, false
  local range = format('%.0f-%.0f*%d', start, stop, lapses)
  for text, other in gmatch(returned, '((%d+)%-%S+)') do
    if not placed and number(other) > start then ranges[#ranges + 1], placed = range, true end
    ranges[#ranges + 1] = text
  end
  if not placed then ranges[#ranges + 1] = range end
  local book = offsets .. ' -inf;' .. table.concat(ranges, ' ') .. ';' .. given_up
  call('HSET', PARTITIONS, partition, book)
  call('ZADD', UNLEASED, format('%.0f', unleased(book)), partition)
  call('ZADD', WAITING, '-inf', partition)
  call('HSET', STATE, 'oldest', 0)
end

-- After silence of everybody it was this server that could not be reached: all get another ttl, but
-- for those who leave, who get no more than they have.
local function forgive(ttl)
  local all, soonest = call('HGETALL', WORKERS), now + ttl
  for i = 1, #all, 2 do
    local rest = match(all[i + 1], '^%S+(.*)$')
    local until_s = math.min(now + ttl, number(match(rest, '^ %S+ by%-([^;]+)')) or math.huge)
    call('HSET', WORKERS, all[i], format('%.6f', until_s) .. rest)
    soonest = math.min(soonest, until_s)
  end
  call('HSET', STATE, 'check', format('%.6f', soonest))
  return soonest
end
