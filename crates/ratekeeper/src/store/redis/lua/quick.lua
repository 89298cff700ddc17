-- What an argument asks: letters, numbers and the shape of states. The first letters are what is done (a acquire, p
-- peek), the rule, whether a refusal takes what there is (d), and how windows begin (e with the epoch, r with a request, c
-- by a calendar, - a meter). All fields are there from the beginning: a table that grows is made anew each time.
local specs = {}
local function spec_of(which)
  local op, rule, drains, align, n, a, b, c, d, e, f, g = unpack('>c1c1c1c1dddddddd', ARGV[which + 1])
  local shape, is_quick = sub(ARGV[which + 1], 69), op == 'a' and drains == '-' and n > 0
  local spec
  if align == '-' then
    spec = {
      op = op, rule = rule, shape = shape, drains = drains == 'd', n = n, is_quick = is_quick, is_meter = true,
      p = a, q = b, ni = c, nf = d, du = e, df = f, wait = g >= 0 and g,
      most = now + e, latest = g >= 0 and now + g,
    }
  else
    spec = {
      op = op, rule = rule, shape = shape, drains = drains == 'd', n = n, is_quick = false, is_meter = false,
      l = a, w = b, a = align, bounds = align == 'c' and { c, d, e, f }, start = 0, head = '', before = '', how = '', ms = '',
    }
    if align == 'c' then spec.a = match(shape, '%l+') end
    if is_quick and align == 'e' and rule ~= 'l' then
      local start = now - fmod(now, b)
      spec.is_quick, spec.start, spec.head = true, start, format(DIGITS, start) .. shape .. ':'
      if rule == 's' and start > 0 then spec.before = format(DIGITS, start - b) .. shape .. ':' end
      spec.how, spec.ms = lives(rule == 's' and start + 2 * b or start + b)
    end
  end
  specs[which] = spec
  return spec
end

-- What most ask is answered here: units of limits whose states have their own numbers and are of this window or the
-- one before, and need no healing. The rules are those of the files below; the first request that is otherwise, and all
-- behind it, are left to them, with what has been read and changed until then.
--
-- It is one piece, with few tables and no functions, because making those is most of what a script costs.

-- Of each key that more than one question is about a row: the three numbers of its state, what asked first, and whether
-- it has changed. It is read once, and written in the end.
local shared = plan[1]
local rows = shared > 0 and {}
-- Of each question of the request a row: what was read, and what its state is if the request takes, or, of a key that
-- nothing else is about, how that is written.
local seat = { 0, 0, 0, 0, 0, 0 }
local out, size = { now }, 1

local at, last, is_quick = 2, #plan, true
while at <= last do
  local seats, allowed, is_short = plan[at], true, true
  for s = 0, seats - 1 do
    local n, which = plan[at + 2 * s + 1], plan[at + 2 * s + 2]
    local spec = specs[which] or spec_of(which)
    is_quick = spec.is_quick
    if not is_quick then break end
    local rule, is_meter = spec.rule, spec.is_meter

    local i, j, k = 0, 0, 0
    local row = n <= shared and 5 * n
    local first = row and rows[row]
    if first then
      i, j, k = rows[row + 1], rows[row + 2], rows[row + 3]
      is_quick = first.shape == spec.shape
    else
      local v = try('GET', KEYS[n])
      if not v then
        -- as if it had never been asked
      elseif type(v) ~= 'string' then
        is_quick = false
      elseif is_meter then
        local shape = spec.shape
        i = #v > 8 and unpack('>d', v) or -1
        is_quick = i >= 0 and i < WHOLE and i % 1 == 0
        if sub(v, 9) ~= shape then
          j = tonumber(match(v, '^:(%d+)$', 9 + #shape))
          is_quick = is_quick and j and j < spec.q and sub(v, 9, 8 + #shape) == shape
        end
      else
        local head, start = spec.head, spec.start
        local front = sub(v, 1, #head)
        if rule == 'f' then
          i, j, k = start, spec.w, tonumber(match(v, '^%d+$', #head + 1))
          is_quick = k and front == head
        else
          i = front == head and start or start - spec.w
          j, k = match(v, '^(%d+):(%d+)$', #head + 1)
          is_quick = j and (front == head or front == spec.before)
          j, k = tonumber(j), tonumber(k)
        end
      end
    end
    if not is_quick then break end
    if row and not first then
      rows[row], rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4] = spec, i, j, k, false
    end

    local to = 6 * s
    seat[to + 1], seat[to + 2], seat[to + 3] = i, j, k
    is_short = is_short and j == 0 and k == 0
    local ok
    if is_meter then
      local most, df, latest = spec.most, spec.df, spec.latest
      is_quick = i < most or (i == most and j <= df)
      ok = not latest or i < latest or (i == latest and j == 0)
      if i < now then i, j = now, 0 end
      i, j = i + spec.ni, j + spec.nf
      if j >= spec.q then i, j = i + 1, j - spec.q end
      ok = ok and (i < most or (i == most and j <= df))
    elseif rule == 'f' then
      k = k + spec.n
      i, j, ok = spec.start, spec.w, k <= spec.l
    else
      local start, w, faded = spec.start, spec.w, 0
      if i ~= start then i, j, k = start, k, 0 end
      if j > 0 then
        local x = j * (w - (now - start))
        is_quick = x < WHOLE
        local r = fmod(x, w)
        faded = (x - r) / w
        if r > 0 then faded = faded + 1 end
      end
      k = k + spec.n
      ok = k + faded <= spec.l
    end
    if not is_quick then break end
    allowed = allowed and ok
    if not allowed then
      -- nothing is written
    elseif row then
      seat[to + 4], seat[to + 5], seat[to + 6] = i, j, k
    elseif rule == 'f' then
      seat[to + 4], seat[to + 5], seat[to + 6] = spec.head .. format(NUMBER, k), spec.how, spec.ms
    elseif rule == 's' then
      local text = spec.head .. format(NUMBER, j) .. ':' .. format(NUMBER, k)
      seat[to + 4], seat[to + 5], seat[to + 6] = text, spec.how, spec.ms
    elseif j == 0 then
      seat[to + 4] = pack('>d', i) .. spec.shape
      seat[to + 5], seat[to + 6] = lives(i)
    else
      seat[to + 4] = pack('>d', i) .. spec.shape .. ':' .. format(NUMBER, j)
      seat[to + 5], seat[to + 6] = lives(i + 1)
    end
  end
  if not is_quick then break end

  size = size + 1
  out[size] = (allowed and 1 or 0) + (is_short and 4 or 0)
  for s = 0, seats - 1 do
    local n, from = plan[at + 2 * s + 1], 6 * s
    if not allowed then
      -- nothing is written
    elseif n > shared then
      -- Only the first write of a script can fail.
      call('SET', KEYS[n], seat[from + 4], seat[from + 5], seat[from + 6])
    else
      local row = 5 * n
      rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4] = seat[from + 4], seat[from + 5], seat[from + 6], true
    end
    size = size + 1
    out[size] = seat[from + 1]
    if not is_short then
      out[size + 1], out[size + 2] = seat[from + 2], seat[from + 3]
      size = size + 2
    end
  end
  at = at + 1 + 2 * seats
end

if at > last then
  for row = 5, 5 * shared, 5 do
    if rows[row + 4] then
      local key, spec, a, b, c = KEYS[row / 5], rows[row], rows[row + 1], rows[row + 2], rows[row + 3]
      if spec.rule == 'f' then
        call('SET', key, spec.head .. format(NUMBER, c), spec.how, spec.ms)
      elseif spec.rule == 's' then
        call('SET', key, spec.head .. format(NUMBER, b) .. ':' .. format(NUMBER, c), spec.how, spec.ms)
      elseif b == 0 then
        call('SET', key, pack('>d', a) .. spec.shape, lives(a))
      else
        call('SET', key, pack('>d', a) .. spec.shape .. ':' .. format(NUMBER, b), lives(a + 1))
      end
    end
  end
  return out
end
