-- sliding-window-counter: the window that it was written in, the count of the one before it, and its own. The shape
-- is the window and the limit.
local function counter_of(s, p, c, w, l, shape)
  return {
    s = s, p = p, c = c, w = w, l = l, shape = shape, heals = false, converts = false,
    vs = 0, vp = 0, vc = 0, cost = 0, rule = false, is_changed = false,
  }
end

local function counter_fresh(spec) return counter_of(0, 0, 0, spec.w, spec.l, spec.shape) end

local function counter_read(v, spec)
  local s = match(v, '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d')
  if not s then return nil end
  local shape = spec.shape
  if sub(v, 17, 16 + #shape) == shape then
    local before, count = match(v, '^:(%d+):(%d+)$', 17 + #shape)
    if before then
      return counter_of(tonumber(s), tonumber(before), tonumber(count), spec.w, spec.l, shape)
    end
  end
  local w, l, p, c = match(sub(v, 17), '^(%d+)s(%d+):(%d+):(%d+)$')
  if not w then return nil end
  shape = w .. 's' .. l
  return counter_of(tonumber(s), tonumber(p), tonumber(c), tonumber(w), tonumber(l), shape)
end

-- The counts as they are now in windows of w: start, previous, current, whether that heals.
local function counter_now(s, p, c, w, l, now)
  local start = now - fmod(now, w)
  if (p == 0 and c == 0) or s == start then return start, p, c, false end
  if s > start then
    if s - now <= guard(w) then return s, p, c, false end
    return start, 0, math.min(p + c, l), true
  end
  if start - s == w then return start, c, 0, false end
  return start, 0, 0, false
end

-- What still counts of the window before, rounded up.
local function faded(s, p, w, now)
  local elapsed = math.min(math.max(now - s, 0), w)
  return raised_to(p, w - elapsed, 0, w)
end

local function counter_ask(spec, st, out, now)
  local s, p, c = st.s, st.p, st.c
  st.converts = false
  if (p > 0 or c > 0) and st.shape ~= spec.shape then
    st.converts = true
    if st.w ~= spec.w then
      local os, op, oc = counter_now(s, p, c, st.w, st.l, now)
      local still = oc + faded(os, op, st.w, now)
      s, p, c = now - fmod(now, spec.w), 0, math.min(op + oc, math.max(still, spec.l))
    end
  end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = s, p, c
  s, p, c, st.heals = counter_now(s, p, c, spec.w, spec.l, now)
  local cost, room = spec.n, spec.l - c - faded(s, p, spec.w, now)
  if spec.drains and cost > room then cost = math.max(1, room) end
  st.vs, st.vp, st.vc, st.cost = s, p, c, cost
  return cost <= room or spec.n == 0
end

local function counter_set(spec, st, c)
  st.s, st.p, st.c = st.vs, st.vp, c
  st.w, st.l, st.shape = spec.w, spec.l, spec.shape
end

local function counter_take(spec, st) counter_set(spec, st, st.vc + st.cost) end

local function counter_refuse(spec, st)
  if not st.heals and not (st.converts and st.vp + st.vc > 0) then return false end
  counter_set(spec, st, st.vc)
  return true
end

local function counter_text(st)
  if st.p == 0 and st.c == 0 then return nil end
  local text = digits(st.s) .. st.shape .. ':' .. whole(st.p) .. ':' .. whole(st.c)
  if st.c == 0 then return text, st.s + st.w end
  return text, st.s + 2 * st.w
end
