-- worker, ttl, patience, lapses_max, fill, samples, least, tokens that the worker knows of " 1 2 ",
-- then what to complete first (token or '', lease, epoch, trained, late, lost), preferred partitions
local worker, ttl, samples, least = ARGV[2], number(ARGV[3]), number(ARGV[7]), number(ARGV[8])
local state = call('HMGET', STATE, 'epoch', 'tokens', 'heard', 'check', 'oldest', 'trained')
local epoch, token, oldest, trained = state[1], state[2], state[5] or 0, state[6] or 0
if not epoch then return {'not-open', ''} end
local patience = number(ARGV[4])
local overdue_before, filled_before = now - patience, now - ARGV[6]
local PREFER, LOOKS = 16, 64 -- where the preferred begin; how many entries to put right at a time

local record = call('HGET', WORKERS, worker)
local silent, due = state[3] and now - state[3] > ttl / 2, now >= number(state[4] or 0)
if ARGV[10] ~= '' then
  local verdict, left = settle(record, ARGV[10], ARGV[11], ARGV[12], epoch)
  if verdict == 'lost' then return {'lost'} end
  if verdict == 'settled' then
    record = left
    trained = format('%.0f', trained + ARGV[13])
    if silent or due then call('HSET', WORKERS, worker, record) end -- they look there
    if ARGV[14] ~= '0' then call('HINCRBY', STATE, 'late', ARGV[14]) end
    if ARGV[15] ~= '0' then call('HINCRBY', STATE, 'lost', ARGV[15]) end
  end
end

if silent then due = forgive(ttl) <= now end
if due then
  local all, soonest = call('HGETALL', WORKERS), now + ttl
  for i = 1, #all, 2 do
    local until_s, held = match(all[i + 1], '^(%S+) %S+ %S+;(.*)$')
    if number(until_s) > now then
      soonest = math.min(soonest, number(until_s))
    else
      call('HDEL', WORKERS, all[i])
      for partition, start, stop, lapses in gmatch(held, '%d+ (%d+) (%d+) (%d+) (%d+),') do
        if lapses + 1 >= number(ARGV[5]) then
          local given_up = call('HGET', PARTITIONS, partition) .. ' ' .. start .. '-' .. stop
          call('HSET', PARTITIONS, partition, given_up)
        else
          call('HINCRBY', STATE, 'repeated', format('%.0f', stop - start))
          take_back(partition, number(start), number(stop), lapses + 1)
          oldest = 0
        end
      end
    end
  end
  call('HSET', STATE, 'check', format('%.6f', soonest))
end
if silent or due then record = call('HGET', WORKERS, worker) end

local until_s, heard = format('%.6f', now + ttl), format('%.6f', now)
local settled, last, held = '0', '-', ''
if record then settled, last, held = match(record, '^%S+ (%S+) (%S+);(.*)$') end
if not number(last) then last = '-' end -- one that said it leaves, and asks all the same

for again, known in gmatch(held, '((%d+) [^,]+),') do
  if not string.find(ARGV[9], ' ' .. known .. ' ', 1, true) then
    -- The reply that gave it was lost on the way: give it again, or it would be held for ever.
    call('HSET', WORKERS, worker, until_s .. ' ' .. settled .. ' ' .. last .. ';' .. held)
    call('HSET', STATE, 'heard', heard, 'trained', trained)
    local partition, start, stop, lapses = match(again, '^%d+ (%d+) (%d+) (%d+) (%d+)$')
    return {'ok', partition, start, stop, known, epoch, until_s, lapses}
  end
end

-- The partition that has waited longest, if that is since before a time.
local function longest_waiting(before)
  if before < number(oldest) then return end
  oldest = 0 -- unless all entries that may be earlier were put right
  for _ = 1, LOOKS do
    local first = call('ZRANGE', WAITING, 0, 0, 'WITHSCORES')
    if not first[1] then
      oldest = now
      return
    end
    local there = call('HGET', PARTITIONS, first[1])
    local since = match(there, '^%d+ %d+ ([^;]+)')
    if since == '-' then
      call('ZREM', WAITING, first[1])
    elseif since == '-inf' or number(since) <= before then
      return first[1], there
    elseif number(since) == number(first[2]) then
      oldest = since
      return
    else
      call('ZADD', WAITING, since, first[1])
    end
  end
end

-- Whoever waited too long comes first.
local partition, book = longest_waiting(overdue_before)

-- Reading on beats a jump to a little more.
local at_home, here = #ARGV < PREFER, 0
if not partition and last ~= '-' then
  for i = PREFER, #ARGV do
    if ARGV[i] == last then at_home = true end
  end
  if at_home then
    book = call('HGET', PARTITIONS, last)
    here = unleased(book)
    if here >= samples then partition = last end
  end
end

local function read_on_or_jump(most, count, text)
  if here >= least and here >= math.min(samples, count / 2) then
    return last, call('HGET', PARTITIONS, last)
  end
  return most, text
end

-- Else the most behind of the preferred; while none has enough, the one left to fill longest.
if not partition and #ARGV >= PREFER then
  local most, count, best, filled, since_filled, book_filled = nil, 0, nil, nil, filled_before, nil
  for first = PREFER, #ARGV, 1000 do
    local beyond = math.min(first + 1000, #ARGV + 1)
    for i, text in ipairs(call('HMGET', PARTITIONS, unpack(ARGV, first, beyond - 1))) do
      local there, name = text and unleased(text) or 0, ARGV[first + i - 1]
      if there > count or (there == count and there > 0 and number(name) > number(most)) then
        most, count, best = name, there, text
      end
      if there > 0 and there < least then
        local since = number(match(text, '^%d+ %d+ ([^;]+)')) or 0
        if since < since_filled
            or (since == since_filled and not (filled and number(filled) < number(name))) then
          filled, since_filled, book_filled = name, since, text
        end
      end
    end
  end
  if count >= least then
    partition, book = read_on_or_jump(most, count, best)
  else
    partition, book = filled, book_filled
  end
end

-- Else the same of all.
if not partition then
  local most, count, best = nil, 0, nil
  for _ = 1, LOOKS do
    local top = call('ZREVRANGE', UNLEASED, 0, 0, 'WITHSCORES')
    if not top[1] then break end
    local text = call('HGET', PARTITIONS, top[1])
    local there = unleased(text)
    if there > count then most, count, best = top[1], there, text end
    if there == number(top[2]) then
      most, count, best = top[1], there, text
      break
    end
    if there > 0 then
      call('ZADD', UNLEASED, format('%.0f', there), top[1])
    else
      call('ZREM', UNLEASED, top[1])
    end
  end
  if count < least then
    partition, book = longest_waiting(filled_before)
  elseif most then
    local text = last ~= '-' and call('HGET', PARTITIONS, last)
    here = text and unleased(text) or 0
    partition, book = read_on_or_jump(most, count, best)
  end
end

if not partition then
  call('HSET', WORKERS, worker, until_s .. ' ' .. settled .. ' ' .. last .. ';' .. held)
  call('HSET', STATE, 'heard', heard, 'trained', trained, 'oldest', oldest)
  return {'ok'}
end

local start, stop_all, since, returned, given_up = match(book, '^(%d+) (%d+) ([^;]+);([^;]*);(.*)$')
local next_offset, stop, lapses = start, nil, '0'
if returned ~= '' then
  local rest
  start, stop, lapses, rest = match(returned, '^(%d+)%-(%d+)%*(%d+) ?(.*)$')
  local upto = start + math.max(1, math.floor(samples / 8 ^ math.max(0, lapses - 1)))
  if upto < number(stop) then
    rest = format('%.0f-%s*%s', upto, stop, lapses) .. (rest == '' and '' or ' ' .. rest)
    stop = format('%.0f', upto)
  end
  returned = rest
else
  local waited = now - number(since)
  if waited > patience then -- see shared_out in shuffler/choice.py
    local enough = samples * math.max(patience / waited, 0.25)
    samples = samples - least * math.floor((samples - enough) / least)
  end
  stop = start + samples < number(stop_all) and format('%.0f', start + samples) or stop_all
  next_offset = stop
end
if returned == '' then since = next_offset == stop_all and '-' or heard end
token = format('%.0f', token + 1)
call('HSET', PARTITIONS, partition,
  next_offset .. ' ' .. stop_all .. ' ' .. since .. ';' .. returned .. ';' .. given_up)
call('HSET', WORKERS, worker, until_s .. ' ' .. settled .. ' ' .. partition .. ';' .. held .. token
  .. ' ' .. partition .. ' ' .. start .. ' ' .. stop .. ' ' .. lapses .. ',')
call('HSET', STATE, 'heard', heard, 'trained', trained, 'tokens', token, 'oldest', oldest)
return {'ok', partition, start, stop, token, epoch, until_s, lapses}
