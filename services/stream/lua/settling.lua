-- Settle a lease that `record` may hold. Gives the record without it, the leases that are left in it,
-- and a verdict: 'settled' now, 'before', or 'lost'.
local function settle(record, token, lease, epoch, epoch_now)
  if not record or epoch ~= epoch_now then return 'lost' end
  local until_s, settled, last, held = match(record, '^(%S+) (%S+) (%S+);(.*)$')
  if settled == token then return 'before' end
  -- A server restored from an older copy gives tokens again: all of the lease must be the same.
  local from, to = string.find(held, token .. ' ' .. lease .. ',', 1, true)
  if not from or (from > 1 and string.sub(held, from - 1, from - 1) ~= ',') then return 'lost' end
  held = string.sub(held, 1, from - 1) .. string.sub(held, to + 1)
  return 'settled', until_s .. ' ' .. token .. ' ' .. last .. ';' .. held
end
