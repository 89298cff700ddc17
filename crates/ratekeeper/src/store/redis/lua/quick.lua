-- What most ask is answered here: units of limits whose states have their own numbers and are of this window or the
-- one before. The rules are those of the files below, without a table for each state, and none of the functions below
-- is needed. The first request that is otherwise, and all behind it, are left to decide.lua, with what has been read
-- and changed until then.
local WORDS = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ?(%S*) ?(%S*) ?(%S*) ?(%S*)$'
local specs = {}

-- What an argument asks. It has twelve words at most.
local function spec_of(text)
  local op, rule, shape, drains, n, d, e, f, g, h, k, l = match(text, WORDS)
  local spec = { op = op, rule = rule, shape = shape, drains = drains == 'd', n = tonumber(n), is_quick = false }
  local is_quick = drains == '-' and op ~= 'p' and spec.n > 0
  if rule == 'm' or rule == 'q' then
    spec.p, spec.q, spec.ni, spec.nf = tonumber(d), tonumber(e), tonumber(f), tonumber(g)
    spec.du, spec.df, spec.wait = tonumber(h), tonumber(k), tonumber(l)
  else
    spec.l, spec.w, spec.a = tonumber(d), tonumber(e), f
    spec.bounds = { tonumber(g), tonumber(h), tonumber(k), tonumber(l) }
    is_quick = is_quick and f == 'e' and rule ~= 'l'
    if is_quick then
      local start = now - fmod(now, spec.w)
      spec.start, spec.head = start, digits(start) .. shape .. ':'
      if rule == 's' then
        spec.before = digits(math.max(start - spec.w, 0)) .. shape .. ':'
        spec.how, spec.till = lives(start + 2 * spec.w)
      else
        spec.how, spec.till = lives(start + spec.w)
      end
    end
  end
  spec.is_quick = is_quick
  specs[text] = spec
  return spec
end

-- Each key that was met has a place, and there what is known of it: the three numbers of its state.
local place, held = {}, 0
local key_at, spec_at, a_at, b_at, c_at, changed_at = {}, {}, {}, {}, {}, {}

-- The place of a key; nothing if its state is not of the usual kind.
local function look(spec, key)
  local at = place[key]
  if at then return spec_at[at].shape == spec.shape and at end
  local a, b, c = 0, 0, 0
  local v = try('GET', key)
  if v then
    if type(v) ~= 'string' then return nil end
    local rule = spec.rule
    if rule == 'm' or rule == 'q' then
      local shape = spec.shape
      a = tonumber(sub(v, 1, 16))
      if not a or a >= WHOLE then return nil end
      if sub(v, 17) ~= shape then
        b = tonumber(match(v, '^:(%d+)$', 17 + #shape))
        if not b or b >= spec.q or sub(v, 17, 16 + #shape) ~= shape then return nil end
      end
    else
      local n = #spec.head
      local head = sub(v, 1, n)
      if rule == 'f' then
        a, b, c = spec.start, spec.w, tonumber(match(v, '^%d+$', n + 1))
        if not c or head ~= spec.head then return nil end
      else
        if head == spec.head then
          a = spec.start
        elseif head == spec.before then
          a = spec.start - spec.w
        else
          return nil
        end
        b, c = match(v, '^(%d+):(%d+)$', n + 1)
        if not b then return nil end
        b, c = tonumber(b), tonumber(c)
      end
    end
  end
  held = held + 1
  place[key], key_at[held], spec_at[held], changed_at[held] = held, key, spec, false
  a_at[held], b_at[held], c_at[held] = a, b, c
  return held
end

-- Of the request in question: places, and the numbers that its states have if it takes.
local seats, at_of, a_of, b_of, c_of = 0, {}, {}, {}, {}
-- What heals, whoever refuses.
local healed, heals_at, i_of, j_of = 0, {}, {}, {}
local out, size = { now }, 1

-- Whether one limit allows it; nothing if that is not for here.
local function quick(spec, key, to)
  local at = spec.is_quick and look(spec, key)
  if not at then return nil end
  local a, b, c, n = a_at[at], b_at[at], c_at[at], spec.n
  seats = seats + 1
  at_of[seats] = at
  local rule = spec.rule
  if rule == 'm' or rule == 'q' then
    out[to] = a
    out[to + 1] = b
    out[to + 2] = 0
    local most, df, wait = now + spec.du, spec.df, spec.wait
    if a > most or (a == most and b > df) then
      a, b = most, df
      healed = healed + 1
      heals_at[healed], i_of[healed], j_of[healed] = at, a, b
    end
    local fits = not wait or a < now + wait or (a == now + wait and b == 0)
    if a < now then a, b = now, 0 end
    a, b = a + spec.ni, b + spec.nf
    if b >= spec.q then a, b = a + 1, b - spec.q end
    a_of[seats], b_of[seats], c_of[seats] = a, b, 0
    return fits and (a < most or (a == most and b <= df))
  end
  out[to] = a
  out[to + 1] = b
  out[to + 2] = c
  local start, w = spec.start, spec.w
  if rule == 'f' then
    a_of[seats], b_of[seats], c_of[seats] = start, w, c + n
    return n <= spec.l - c
  end
  if a ~= start then b, c = c, 0 end
  local faded = 0
  if b > 0 then
    local x = b * (w - (now - start))
    if x >= WHOLE then return nil end
    local r = fmod(x, w)
    faded = (x - r) / w
    if r > 0 then faded = faded + 1 end
  end
  a_of[seats], b_of[seats], c_of[seats] = start, b, c + n
  return n <= spec.l - c - faded
end

local next_question, questions = 1, #KEYS
while next_question <= questions do
  local x, allowed, is_quick = next_question, true, true
  seats, healed = 0, 0
  out[size + 1] = 0
  repeat
    local text = ARGV[x]
    local ok = quick(specs[text] or spec_of(text), KEYS[x], size + 2 + 3 * seats)
    if ok == nil then
      is_quick = false
      break
    end
    allowed = allowed and ok
    x = x + 1
    text = ARGV[x]
  until x > questions or byte(text) ~= 43
  if not is_quick then
    for n = #out, size + 1, -1 do out[n] = nil end
    break
  end
  if allowed then
    out[size + 1] = 1
    for n = 1, seats do
      local at = at_of[n]
      a_at[at], b_at[at], c_at[at], changed_at[at] = a_of[n], b_of[n], c_of[n], true
    end
  else
    for n = 1, healed do
      local at = heals_at[n]
      a_at[at], b_at[at], changed_at[at] = i_of[n], j_of[n], true
    end
  end
  size = size + 1 + 3 * seats
  next_question = x
end

if next_question > questions then
  -- Only the first write of a script can fail.
  for at = 1, held do
    if changed_at[at] then
      local key, spec, a, b = key_at[at], spec_at[at], a_at[at], b_at[at]
      local rule = spec.rule
      if rule == 'f' then
        call('SET', key, spec.head .. whole(c_at[at]), spec.how, spec.till)
      elseif rule == 's' then
        call('SET', key, spec.head .. whole(b) .. ':' .. whole(c_at[at]), spec.how, spec.till)
      elseif b == 0 then
        call('SET', key, digits(a) .. spec.shape, lives(a))
      else
        call('SET', key, digits(a) .. spec.shape .. ':' .. whole(b), lives(a + 1))
      end
    end
  end
  return out
end
