-- Gives back, credits and forgets: each key by itself. An argument is "x" (forget), "r …" (give an admission back, by
-- the safe rule) or "c …" (credit units, at most up to full). The answer is the time, and for each key whether it has
-- changed (1), or is not ours (3).
local function earlier(i, j, u, f, q)
  i, j = i - u, j - f
  if j < 0 then return i - 1, j + q end
  return i, j
end

-- The side of a state that is changed, that of its own limit if there are two, and the other.
local function sides(spec, st)
  local mine, other = { i = st.i, j = st.j, shape = st.shape }, st.other
  if other and other.shape == spec.shape then
    return { i = other.i, j = 0, shape = other.shape }, { i = mine.i, shape = mine.shape }
  end
  return mine, other
end

-- Writes the changed side beside the other.
local function set_side(st, mine, other, i, j)
  if other then i, j = up(i, j), 0 end
  st.i, st.j, st.shape, st.other = i, j, mine.shape, other
end

-- by: an instant, what the admission took until the end of what is given back, what of that is given back, and all
-- that it took; of a queue the end and the start of the slot
local function meter_back(spec, st, by)
  local mine, other = sides(spec, st)
  local s, like = shape_of(mine.shape), shape_of(spec.shape)
  local i, j = mine.i, mine.j
  if s.p ~= like.p or s.q ~= like.q or by.all > s.b or now < by.at then return false end
  if spec.rule == 'q' then
    if i ~= by.u or j ~= by.f or not beyond(by.v, by.g, now, 0) then return false end
    i, j = by.v, by.g
  else
    local eu, ef = by.at + by.u, by.f
    if beyond(eu, ef, i, j) then return false end
    -- what cannot have drained yet, at most what is given back
    local u, f = earlier(by.u, by.f, now - by.at, 0, s.q)
    if u < 0 then return false end
    if beyond(u, f, by.v, by.g) then u, f = by.v, by.g end
    i, j = earlier(i, j, u, f, s.q)
  end
  set_side(st, mine, other, i, j)
  return true
end

local function meter_credit(spec, st, n)
  if spec.rule == 'q' then return false end
  local mine, other = sides(spec, st)
  local s = shape_of(mine.shape)
  if not beyond(mine.i, mine.j, now, 0) then return false end
  local u, f = units(s, n)
  local i, j = earlier(mine.i, mine.j, u, f, s.q)
  if not beyond(i, j, now, 0) then i, j = now, 0 end
  set_side(st, mine, other, i, j)
  return true
end

local function fixed_back(spec, st, by)
  if st.c == 0 or st.s ~= by.at or st.len ~= by.u then return false end
  if st.w ~= spec.w or st.a ~= spec.a then return false end
  st.c = math.max(st.c - by.v, 0)
  return true
end

local function fixed_credit(_, st, n)
  if st.c == 0 or now >= st.s + st.len then return false end
  st.c = math.max(st.c - n, 0)
  return true
end

local function counter_back(spec, st, by)
  if st.p == 0 and st.c == 0 or st.w ~= spec.w then return false end
  if st.s == by.at then
    st.c = math.max(st.c - by.v, 0)
  elseif st.s == by.at + spec.w then
    st.p = math.max(st.p - by.v, 0)
  else
    return false
  end
  return true
end

local function counter_credit(_, st, n)
  local start = now - fmod(now, st.w)
  if st.p == 0 and st.c == 0 or start > st.s + st.w then return false end
  local taken = math.min(n, st.c)
  st.c = st.c - taken
  if start <= st.s then st.p = math.max(st.p - (n - taken), 0) end
  return true
end

-- Adds before it removes: a set that is empty for a moment loses its expiry.
local function rename(key, score, before, after)
  call('ZADD', key, score, after)
  call('ZREM', key, before)
end

local function log_back(spec, key, by)
  local at = whole(by.at)
  for _, member in ipairs(call('ZRANGEBYSCORE', key, at, at)) do
    local sum, cost = entry(member)
    if not sum then return nil end
    if cost == by.u then
      local rank = call('ZRANK', key, member)
      local later = call('ZRANGE', key, rank + 1, -1, 'WITHSCORES')
      if by.v < cost then
        rename(key, at, member, digits(sum - by.v) .. ':' .. whole(cost - by.v))
      else
        call('ZREM', key, member)
      end
      for n = 1, #later, 2 do
        local s, c = entry(later[n])
        rename(key, later[n + 1], later[n], digits(s - by.v) .. ':' .. whole(c))
      end
      local newest = call('ZRANGE', key, -1, -1, 'WITHSCORES')
      if newest[1] then log_lives(key, tonumber(newest[2]) + spec.w) end
      return true
    end
  end
  return false
end

local function log_credit(spec, key, n)
  local changes_it = false
  while n > 0 do
    local newest = call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if not newest[1] or tonumber(newest[2]) <= now - spec.w then break end
    local sum, cost = entry(newest[1])
    if not sum then return nil end
    if cost > n then
      rename(key, newest[2], newest[1], digits(sum - n) .. ':' .. whole(cost - n))
    else
      call('ZREM', key, newest[1])
    end
    n, changes_it = n - math.min(n, cost), true
  end
  return changes_it
end

local back = { m = meter_back, q = meter_back, f = fixed_back, s = counter_back }
local credit = { m = meter_credit, q = meter_credit, f = fixed_credit, s = counter_credit }
local out = { now }

local function amend(key, text)
  if text == 'x' then
    states[key] = nil
    return call('DEL', key)
  end
  local f = {}
  for word in string.gmatch(text, '%S+') do f[#f + 1] = word end
  local spec = { rule = f[2], shape = f[3], w = tonumber(f[4]), a = f[5] }
  local gives_back = f[1] == 'r'
  local by = { at = tonumber(f[6]), u = tonumber(f[7]), f = tonumber(f[8]), v = tonumber(f[9]), g = tonumber(f[10]), all = tonumber(f[11]) }
  if spec.rule == 'l' then
    local st = log_read(spec, key, now)
    if not st then return nil end
    if gives_back then return log_back(spec, key, by) end
    return log_credit(spec, key, by.at)
  end
  local st = state(spec, key)
  if not st then return nil end
  if (spec.rule == 'm' or spec.rule == 'q') and st.i == 0 and st.j == 0 then return false end
  local done
  if gives_back then done = back[spec.rule](spec, st, by) else done = credit[spec.rule](spec, st, by.at) end
  if done then change(spec, key, st) end
  return done
end

local at = 2
while plan[at] do
  for x = at + 1, at + 2 * plan[at], 2 do
    local done = amend(KEYS[plan[x]], ARGV[plan[x + 1] + 1])
    if done == nil then done = 3 else done = done and done ~= 0 and 1 or 0 end
    out[#out + 1] = done
  end
  at = at + 1 + 2 * plan[at]
end
