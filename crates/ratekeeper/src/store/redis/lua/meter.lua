-- token-bucket, gcra and leaky-bucket, with a queue and without. The state is the theoretical arrival time i + j / q.
-- It says by which numbers it was written: "p/qxb", where a unit takes p / q microseconds and b units fit.
local shapes = {}

-- the time of n units
local function units(s, n)
  if s.q == 1 then return n * s.p, 0 end
  return divided(n, s.p, 0, s.q)
end

local function shape_of(text)
  local s = shapes[text]
  if not s then
    local p, q, b = match(text, '^(%d+)/(%d+)x(%d+)$')
    if not p then return nil end
    s = { text = text, p = tonumber(p), q = tonumber(q), b = tonumber(b) }
    s.du, s.df = units(s, s.b)
    shapes[text] = s
  end
  return s
end

-- Instants are written as eight bytes: digits take a server longer than all else that is done with them.
local function instant(bytes)
  local us = #bytes == 8 and unpack('>d', bytes) or -1
  if us >= 0 and us < WHOLE and us % 1 == 0 then return us end
  return nil
end

-- All fields are there from the beginning: a table that grows is made anew each time.
local function meter_of(i, j, shape, other)
  return {
    i = i, j = j, shape = shape, other = other, side = false, is_new = false, heals = false, converts = false,
    vi = 0, vj = 0, ei = 0, ej = 0, rule = false, is_changed = false,
  }
end

local function meter_fresh(spec) return meter_of(0, 0, spec.shape, false) end

local function meter_read(v, spec)
  local i = instant(sub(v, 1, 8))
  local rest = sub(v, 9)
  if not i then return nil end
  if rest == spec.shape then return meter_of(i, 0, rest, false) end
  local shape, j = match(rest, '^([%d/x]+):?(%d*)$')
  if shape then
    local s = shape_of(shape)
    j = tonumber(j) or 0
    if not s or j >= s.q then return nil end
    return meter_of(i, j, shape, false)
  end
  local k, other
  -- An instant may have any bytes, also that of a line's end or of a zero.
  local bar = #match(rest, '^[%d/x]*') + 1
  if byte(rest, bar) ~= 124 then return nil end
  shape, k, other = sub(rest, 1, bar - 1), sub(rest, bar + 1, bar + 8), sub(rest, bar + 9)
  if not shape_of(shape) or not shape_of(other) then return nil end
  k = instant(k)
  if not k then return nil end
  return meter_of(i, 0, shape, { i = k, shape = other })
end

local function up(i, j)
  if j > 0 then return i + 1 end
  return i
end

local function beyond(i, j, k, l) return i > k or (i == k and j > l) end

-- What is in use by the numbers of old, in those of new: exact, rounded up when the rate differs; what is beyond the
-- capacity counts as a microsecond beyond.
local function kept(new, old, i, j, now)
  if new.p == old.p and new.q == old.q then return i, j end
  if not beyond(i, j, now, 0) then return i, 0 end
  local u, f = i - now, j
  if beyond(u, f, old.du, old.df) then u, f = old.du, old.df end
  local d = big(u, old.q, f)
  times(d, new.p)
  local r = over(d, old.p)
  local s = over(d, new.q)
  local v = number(d)
  if r > 0 or s > 0 then v = v + 1 end
  if v > new.du + 1 then v = new.du + 1 end
  return now + v, 0
end

local function cuts(new, old, i, j, now)
  local k, l = kept(new, old, i, j, now)
  return beyond(k, l, now + new.du, new.df)
end

local function converted(new, old, i, j, now)
  local k, l = kept(new, old, i, j, now)
  if beyond(k, l, now + new.du, new.df) then return now + new.du, new.df end
  return k, l
end

local function fullest(s, now) return up(now + s.du, s.df) end

-- whether no fewer units are in use by s at i than by other at k
local function is_fuller(s, i, other, k, now)
  if cuts(s, other, k, 0, now) then return false end
  return up(converted(s, other, k, 0, now)) <= math.max(i, now)
end

-- A side after its key went from before to i by the numbers of by: that much more, in its own units.
local function raised(side, by, before, i, now)
  local s = shape_of(side.shape)
  local taken = i - math.max(before, now)
  if taken > 0 then
    taken = up(converted(s, by, now + taken, 0, now)) - now
    if taken > 0 then
      local most = math.max(fullest(s, now), side.i)
      return { shape = side.shape, i = math.min(math.max(side.i, now) + taken, most) }
    end
  end
  return side
end

-- A state that another limit has written, as this one reads it. The units that a smaller limit has no room for are
-- kept beside it, as a state of both.
local function meter_read_other(spec, st, i, j, shape, now)
  local new, old = shape_of(spec.shape), shape_of(shape)
  local k, l = converted(new, old, i, j, now)
  local is_cut
  if spec.rule == 'q' then
    -- promised slots stay where they are
    if new.q ~= old.q and j > 0 then k, l = i + 1, 0 else k, l = i, j end
    is_cut = beyond(k, l, now + new.du, new.df)
  else
    is_cut = cuts(new, old, i, j, now)
  end
  if not is_cut then
    st.converts = true
    return k, l, 0
  end
  if beyond(i, j, now + old.du, old.df) then i, j = now + old.du, old.df end
  if spec.rule == 'q' then
    if new.q ~= old.q and j > 0 then i, j = i + 1, 0 end
    return i, j, 1
  end
  st.side, st.is_new = { shape = shape, i = up(i, j) }, true
  return up(k, l), 0, 1
end

local function meter_read_both(spec, st, now)
  local mine, other = { shape = st.shape, i = st.i }, st.other
  if other.shape == spec.shape then mine, other = other, mine end
  if mine.shape ~= spec.shape then
    if not is_fuller(shape_of(mine.shape), mine.i, shape_of(other.shape), other.i, now) then
      mine = other
    end
    return meter_read_other(spec, st, mine.i, 0, mine.shape, now)
  end
  local s, o = shape_of(mine.shape), shape_of(other.shape)
  local i, k = math.min(mine.i, fullest(s, now)), math.min(other.i, fullest(o, now))
  local is_new = i ~= mine.i or k ~= other.i
  if is_new or not is_fuller(s, i, o, k, now) then
    st.side, st.is_new = { shape = other.shape, i = k }, is_new
  end
  return i, 0, 1
end

local function meter_remaining(spec, bi, bj, now)
  local u, f = spec.du - (bi - now), spec.df - bj
  if f < 0 then u, f = u - 1, f + spec.q end
  if u < 0 then return 0 end
  local room = divided(u, spec.q, f, spec.p)
  if spec.wait then
    u, f = spec.wait - (bi - now), 0
    if bj > 0 then u, f = u - 1, spec.q - bj end
    if u < 0 then return 0 end
    room = math.min(room, divided(u, spec.q, f, spec.p) + 1)
  end
  return room
end

local function meter_fits(spec, bi, bj, ni, nf, now)
  local ei, ej = bi + ni, bj + nf
  if ej >= spec.q then ei, ej = ei + 1, ej - spec.q end
  local ok = not beyond(ei, ej, now + spec.du, spec.df)
  if spec.wait and beyond(bi, bj, now + spec.wait, 0) then ok = false end
  return ok, ei, ej
end

local function meter_ask(spec, st, out, now)
  local i, j, quiet = st.i, st.j, 0
  st.heals, st.converts, st.side = false, false, nil
  if st.shape ~= spec.shape or st.other then
    if st.other then
      i, j, quiet = meter_read_both(spec, st, now)
    elseif i > 0 or j > 0 then
      i, j, quiet = meter_read_other(spec, st, i, j, st.shape, now)
    end
  end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = i, j, quiet
  if quiet == 0 and beyond(i, j, now + spec.du, spec.df) then
    i, j, st.heals = now + spec.du, spec.df, true
  end
  local bi, bj = i, j
  if bi < now then bi, bj = now, 0 end
  local ok, ei, ej = meter_fits(spec, bi, bj, spec.ni, spec.nf, now)
  if not ok and spec.drains and spec.n > 0 then
    local fit = math.max(1, math.min(meter_remaining(spec, bi, bj, now), spec.n))
    local ni, nf = units(spec, fit)
    ok, ei, ej = meter_fits(spec, bi, bj, ni, nf, now)
  end
  st.vi, st.vj, st.ei, st.ej = i, j, ei, ej
  return ok or spec.n == 0
end

local function meter_set(spec, st, i, j, now)
  local side = st.side
  if side then
    i, j = up(i, j), 0
    side = raised(side, shape_of(spec.shape), st.vi, i, now)
  end
  st.i, st.j, st.shape, st.other = i, j, spec.shape, side
end

local function meter_take(spec, st, now) meter_set(spec, st, st.ei, st.ej, now) end

local function meter_refuse(spec, st, now)
  if st.heals or st.converts then
    meter_set(spec, st, st.vi, st.vj, now)
    return true
  end
  if st.side and st.is_new then
    st.i, st.j, st.shape, st.other = up(st.vi, st.vj), 0, spec.shape, st.side
    return true
  end
  return false
end

local function meter_text(st)
  local text = pack('>d', st.i) .. st.shape
  if st.other then
    text = text .. '|' .. pack('>d', st.other.i) .. st.other.shape
    return text, math.max(st.i, st.other.i)
  end
  if st.j > 0 then return text .. ':' .. whole(st.j), st.i + 1 end
  return text, st.i
end
