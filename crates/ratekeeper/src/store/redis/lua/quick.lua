-- What most ask is answered here: units of limits whose states have their own numbers and are of this window or the
-- one before, and need no healing. The rules are those of the files below; the first request that is otherwise, and all
-- behind it, are left to them, with what has been read and changed until then.
--
-- It is one piece, with few tables and no functions, because making those is most of what a script costs. For the same
-- reason tables are rows of fields without names, and begin as large as most become.

-- Of each argument, what is needed of it: the rule, the shape and the units asked for;
-- of a meter what they take (whole, parts), the parts of a microsecond, the latest arrival (whole, parts), the latest start
-- or false;
-- of a window the limit, the length, the start, what a state of it begins with, what one of the window before, and when
-- it is over, in milliseconds.
local terms = { nil, nil }
-- Of each key that more than one question is about a row: the three numbers of its state, the argument that asked first,
-- and whether it has changed. It is read once, and written in the end.
local shared = plan[1]
local rows = shared > 0 and { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }
-- Of each question of a request that has several: what was read, and what its state is if the request takes, or, of a key
-- that nothing else is about, how that is written.
local seat = false
local out, size = { now, nil, nil, nil, nil, nil, nil, nil }, 1
local HOW = 'PXAT' --@EXPIRY
-- The values of several keys are read by one call. Where there is none, there is no key, or it is not ours, or MGET is
-- forbidden: then GET says which.
local values = #KEYS > 1 and try('MGET', all_of(KEYS))

local at, last, is_quick = 2, #plan, true
while at <= last do
  local seats, allowed, is_short = plan[at], true, true
  if seats > 1 and not seat then seat = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil } end
  for s = 0, seats - 1 do
    local n, which = plan[at + 2 * s + 1], plan[at + 2 * s + 2]
    local term = terms[which]
    if not term then
      local arg = ARGV[which + 1]
      local rule, shape, how = sub(arg, 2, 2), sub(arg, 69), sub(arg, 1, 4)
      local units, a, b, c, d, e, f, g = unpack('>dddddddd', arg, 5)
      is_quick = units > 0
      if how == 'am--' or how == 'aq--' then
        term = { rule, shape, units, c, d, b, now + e, f, g >= 0 and now + g }
      elseif how == 'af-e' or how == 'as-e' then
        local start = now - fmod(now, b)
        local before, over = '', start + b
        if rule == 's' then
          if start > 0 then before = format(DIGITS, start - b) .. shape .. ':' end
          over = over + b
        end
        local ms = format(NUMBER, over / 1000 + 1) --@EXPIRY
        term = { rule, shape, units, a, b, start, format(DIGITS, start) .. shape .. ':', before, ms }
      else
        is_quick = false
      end
      if not is_quick then break end
      terms[which] = term
    end
    local rule, shape = term[1], term[2]
    local is_meter = rule == 'm' or rule == 'q'

    local i, j, k = 0, 0, 0
    local row = n <= shared and 5 * n - 4
    local first = row and rows[row]
    if first then
      i, j, k = rows[row + 1], rows[row + 2], rows[row + 3]
      is_quick = terms[first][2] == shape
    else
      local v = values and values[n] or try('GET', KEYS[n])
      if not v then
        -- as if it had never been asked
      elseif type(v) ~= 'string' then
        is_quick = false
      elseif is_meter then
        i = #v > 8 and unpack('>d', v) or -1
        is_quick = i >= 0 and i < WHOLE and i % 1 == 0
        if sub(v, 9) ~= shape then
          j = tonumber(match(v, '^:(%d+)$', 9 + #shape))
          is_quick = is_quick and j and j < term[6] and sub(v, 9, 8 + #shape) == shape
        end
      else
        local start, head = term[6], term[7]
        local front = sub(v, 1, #head)
        if rule == 'f' then
          i, j, k = start, term[5], tonumber(match(v, '^%d+$', #head + 1))
          is_quick = k and front == head
        else
          i = front == head and start or start - term[5]
          j, k = match(v, '^(%d+):(%d+)$', #head + 1)
          is_quick = j and (front == head or front == term[8])
          j, k = tonumber(j), tonumber(k)
        end
      end
    end
    if not is_quick then break end
    if row and not first then
      rows[row], rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4] = which, i, j, k, false
    end

    -- what was read is told, and what follows from it
    local ri, rj, rk = i, j, k
    is_short = is_short and j == 0 and k == 0
    local ok
    if is_meter then
      local q, most, df, latest = term[6], term[7], term[8], term[9]
      is_quick = i < most or (i == most and j <= df)
      ok = not latest or i < latest or (i == latest and j == 0)
      if i < now then i, j = now, 0 end
      i, j = i + term[4], j + term[5]
      if j >= q then i, j = i + 1, j - q end
      ok = ok and (i < most or (i == most and j <= df))
    elseif rule == 'f' then
      k = k + term[3]
      i, j, ok = term[6], term[5], k <= term[4]
    else
      local start, w, faded = term[6], term[5], 0
      if i ~= start then i, j, k = start, k, 0 end
      if j > 0 then
        local x = j * (w - (now - start))
        is_quick = x < WHOLE
        local r = fmod(x, w)
        faded = (x - r) / w
        if r > 0 then faded = faded + 1 end
      end
      k = k + term[3]
      ok = k + faded <= term[4]
    end
    if not is_quick then break end
    allowed = allowed and ok

    if allowed and not row then
      local text, ms
      if not is_meter then
        if rule == 's' then text = format(NUMBER, j) .. ':' .. format(NUMBER, k) else text = format(NUMBER, k) end
        text, ms = term[7] .. text, term[9]
      else
        if j == 0 then text = pack('>d', i) .. shape else text = pack('>d', i) .. shape .. ':' .. format(NUMBER, j) end
        ms = format(NUMBER, (j == 0 and i or i + 1) / 1000 + 1) --@EXPIRY
      end
      if seats == 1 then
        -- Only the first write of a script can fail.
        call('SET', KEYS[n], text, HOW, ms)
      else
        i, j = text, ms
      end
    end
    if seats > 1 then
      local to = 6 * s
      seat[to + 1], seat[to + 2], seat[to + 3], seat[to + 4], seat[to + 5], seat[to + 6] = ri, rj, rk, i, j, k
    else
      if allowed and row then
        rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4] = i, j, k, true
      end
      out[size + 1], out[size + 2] = (allowed and 1 or 0) + (is_short and 4 or 0), ri
      size = size + 2
      if not is_short then
        out[size + 1], out[size + 2] = rj, rk
        size = size + 2
      end
    end
  end
  if not is_quick then break end

  if seats > 1 then
    size = size + 1
    out[size] = (allowed and 1 or 0) + (is_short and 4 or 0)
    for s = 0, seats - 1 do
      local n, from = plan[at + 2 * s + 1], 6 * s
      if not allowed then
        -- nothing is written
      elseif n > shared then
        call('SET', KEYS[n], seat[from + 4], HOW, seat[from + 5])
      else
        local row = 5 * n - 4
        rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4] = seat[from + 4], seat[from + 5], seat[from + 6], true
      end
      size = size + 1
      out[size] = seat[from + 1]
      if not is_short then
        out[size + 1], out[size + 2] = seat[from + 2], seat[from + 3]
        size = size + 2
      end
    end
  end
  at = at + 1 + 2 * seats
end

if at > last then
  for n = 1, shared do
    local row = 5 * n - 4
    if rows[row + 4] then
      local key, term, i, j, k = KEYS[n], terms[rows[row]], rows[row + 1], rows[row + 2], rows[row + 3]
      local rule, text, ms = term[1], nil, nil
      if rule == 'f' then
        text, ms = term[7] .. format(NUMBER, k), term[9]
      elseif rule == 's' then
        text, ms = term[7] .. format(NUMBER, j) .. ':' .. format(NUMBER, k), term[9]
      else
        if j == 0 then text = pack('>d', i) .. term[2] else text = pack('>d', i) .. term[2] .. ':' .. format(NUMBER, j) end
        ms = format(NUMBER, (j == 0 and i or i + 1) / 1000 + 1) --@EXPIRY
      end
      call('SET', key, text, HOW, ms)
    end
  end
  return out
end
