-- fixed-window: the count of a window that says where it begins and how long it is. The shape is the window of the
-- limit, how it is aligned, and the limit.
local function guard(w)
  if w < 1000000 then return w end
  return 1000000
end

local function fixed_of(s, len, c, w, a, l, shape)
  return {
    s = s, len = len, c = c, w = w, a = a, l = l, shape = shape, heals = false, converts = false,
    vs = 0, vlen = 0, vc = 0, cost = 0, rule = false, is_changed = false,
  }
end

local function fixed_fresh(spec) return fixed_of(0, 0, 0, spec.w, spec.a, spec.l, spec.shape) end

local function fixed_read(v, spec)
  local s = match(v, '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d')
  if not s then return nil end
  local shape = spec.shape
  if sub(v, 17, 16 + #shape) == shape then
    local count = match(v, '^:(%d+)$', 17 + #shape)
    if count then return fixed_of(tonumber(s), spec.w, tonumber(count), spec.w, spec.a, spec.l, shape) end
  end
  local w, a, l, c, len = match(sub(v, 17), '^(%d+)(%l+)(%d+):(%d+):?(%d*)$')
  if not w then return nil end
  shape = w .. a .. l
  w = tonumber(w)
  return fixed_of(tonumber(s), tonumber(len) or w, tonumber(c), w, a, tonumber(l), shape)
end

-- The window that contains now; nothing if that lies beyond the periods of the calendar that were sent.
local function fixed_window(spec, now)
  if spec.a == 'e' then return now - fmod(now, spec.w), spec.w end
  if spec.a == 'r' then return now, spec.w end
  for n = 1, #spec.bounds - 1 do
    local s, e = spec.bounds[n], spec.bounds[n + 1]
    if s <= now and now < e then return s, e - s end
  end
  return nil
end

local function fixed_ask(spec, st, out, now)
  st.heals, st.converts = false, false
  local s, len, c = st.s, st.len, st.c
  local here, length = fixed_window(spec, now)
  if not here then return nil end
  if c > 0 and st.shape ~= spec.shape then
    st.converts = true
    if st.w ~= spec.w or st.a ~= spec.a then
      if now >= s + len then c = 0 elseif s > now and s - now > guard(len) then c = math.min(c, st.l) end
      s, len = here, length
    end
  end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = s, len, c
  if c == 0 or now >= s + len then
    s, len, c = here, length, 0
  elseif s > now and s - now > guard(len) then
    s, len, c, st.heals = here, length, math.min(c, spec.l), true
  end
  local cost, room = spec.n, spec.l - c
  if spec.drains and cost > room then cost = math.max(1, room) end
  st.vs, st.vlen, st.vc, st.cost = s, len, c, cost
  return cost <= room or spec.n == 0
end

local function fixed_set(spec, st, c)
  st.s, st.len, st.c = st.vs, st.vlen, c
  st.w, st.a, st.l, st.shape = spec.w, spec.a, spec.l, spec.shape
end

local function fixed_take(spec, st) fixed_set(spec, st, st.vc + st.cost) end

local function fixed_refuse(spec, st)
  if not st.heals and not (st.converts and st.vc > 0) then return false end
  fixed_set(spec, st, st.vc)
  return true
end

local function fixed_text(st)
  if st.c == 0 then return nil end
  local text = digits(st.s) .. st.shape .. ':' .. whole(st.c)
  if st.len ~= st.w then text = text .. ':' .. whole(st.len) end
  return text, st.s + st.len
end
