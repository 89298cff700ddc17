-- sliding-window-log: a sorted set of admissions by their instants; a member is the sum of all costs up to it, in
-- sixteen digits, and its own cost: so the units in use are a subtraction, and the wait is a binary search.
local function entry(member)
  local sum, cost = match(member, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d):(%d+)$')
  return tonumber(sum), tonumber(cost)
end

-- Nothing if what is there is not ours.
local function log_read(spec, key, now)
  local st = { used = 0, last = 0, newest = 0, oldest = 0, base = 0 }
  local newest = try('ZRANGE', key, -1, -1, 'WITHSCORES')
  if newest.err then
    -- what is no set is not ours; any other trouble is the caller's to know
    if not match(newest.err, 'WRONGTYPE') then call('ZRANGE', key, -1, -1) end
    return nil
  end
  if not newest[1] then return st end
  st.last = entry(newest[1])
  st.top = newest[1]
  if not st.last then return nil end
  st.ahead = tonumber(newest[2])
  local live = call('ZRANGEBYSCORE', key, '(' .. whole(now - spec.w), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if live[1] then
    local sum, cost = entry(live[1])
    if not sum then return nil end
    st.first, st.oldest, st.newest = live[1], tonumber(live[2]), st.ahead
    st.base = sum - cost
    st.used = st.last - st.base
  end
  return st
end

-- The instant of the entry with whose end so many units fit.
local function log_frees(spec, st, key, cost)
  local needed = st.base + st.used + cost - spec.l
  local a, b = call('ZRANK', key, st.first), call('ZRANK', key, st.top)
  while a < b do
    local h = math.floor((a + b) / 2)
    if entry(call('ZRANGE', key, h, h)[1]) >= needed then b = h else a = h + 1 end
  end
  return tonumber(call('ZRANGE', key, a, a, 'WITHSCORES')[2])
end

local function log_ask(spec, st, out, key)
  local n, cost, room = #out, spec.n, spec.l - st.used
  if spec.drains and cost > room then cost = math.max(1, room) end
  local ok = cost <= room or spec.n == 0
  st.cost = cost
  out[n + 1], out[n + 2], out[n + 3] = st.used, st.oldest, st.newest
  out[n + 4], out[n + 5] = 0, 0
  if st.first then
    if st.used > spec.l then out[n + 4] = log_frees(spec, st, key, 1) end
    if not ok and cost <= spec.l then out[n + 5] = log_frees(spec, st, key, cost) end
  end
  return ok
end
