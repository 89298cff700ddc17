-- Decides requests one after another, each all or nothing. The answer is the time, and for each request what became of it
-- (0 refused, 1 allowed, 2 the calendar is too short, 3 not ours) and the state of each limit as it was read, from which
-- the caller works out all else by the same rules. 4 and 5 are 0 and 1 when each state is its first number only.
local asks = { m = meter_ask, q = meter_ask, f = fixed_ask, s = counter_ask }
local take = { m = meter_take, q = meter_take, f = fixed_take, s = counter_take }
local refuse = { m = meter_refuse, q = meter_refuse, f = fixed_refuse, s = counter_refuse }
local FIELDS = { m = 3, q = 3, f = 3, s = 3, l = 5 }

-- A set is written at once: whoever asks next in this call reads it again.
local function write_log(spec, key, st, takes)
  if st.ahead and st.ahead > now then
    local ahead = call('ZRANGEBYSCORE', key, '(' .. whole(now), '+inf')
    for n = 1, #ahead do call('ZADD', key, whole(now), ahead[n]) end
    if not takes then log_lives(key, now + spec.w) end
  end
  if takes then
    -- without a live entry the sums begin anew
    local sum = (st.first and st.last or 0) + st.cost
    call('ZADD', key, whole(now), digits(sum) .. ':' .. whole(st.cost))
    -- after it: a server without memory refuses the first write of a script, and no removal
    call('ZREMRANGEBYSCORE', key, '-inf', whole(now - spec.w))
    log_lives(key, now + spec.w)
  end
end

-- What an argument asks: letters, numbers and the shape of states. The first letters are what is done (a acquire, p
-- peek), the rule, whether a refusal takes what there is (d), and how windows begin (e with the epoch, r with a request, c
-- by a calendar, - a meter).
local specs = {}
local function spec_of(which)
  local spec = specs[which]
  if spec then return spec end
  local op, rule, drains, align, n, a, b, c, d, e, f, g = unpack('>c1c1c1c1dddddddd', ARGV[which + 1])
  spec = { op = op, rule = rule, shape = sub(ARGV[which + 1], 69), drains = drains == 'd', n = n }
  if align == '-' then
    spec.p, spec.q, spec.ni, spec.nf, spec.du, spec.df, spec.wait = a, b, c, d, e, f, g >= 0 and g
  else
    spec.l, spec.w, spec.a, spec.bounds = a, b, align, { c, d, e, f }
    if align == 'c' then spec.a = match(spec.shape, '%l+') end
  end
  specs[which] = spec
  return spec
end

-- What is known of each question's state.
local found = {}

-- The key of a question, and what it asks.
local function asked(x)
  return KEYS[plan[x]], spec_of(plan[x + 1])
end

local function decide(first, last)
  local verdict_at = #out + 1
  out[verdict_at] = 1
  local allowed, verdict, peeks = true, nil, false
  for x = first, last, 2 do
    local key, spec = asked(x)
    local st, ok = state(spec, key), nil
    if not st then
      verdict = 3
    elseif spec.rule == 'l' then
      ok = log_ask(spec, st, out, key)
    else
      ok = asks[spec.rule](spec, st, out, now)
      if ok == nil then verdict = verdict or 2 end
    end
    if ok == nil then
      for _ = 1, FIELDS[spec.rule] do out[#out + 1] = 0 end
    end
    if not ok then allowed = false end
    found[x], peeks = st, spec.op == 'p'
  end
  out[verdict_at] = verdict or (allowed and 1 or 0)
  if verdict or peeks then return end
  for x = first, last, 2 do
    local key, spec = asked(x)
    local st = found[x]
    if spec.n == 0 then
      -- a part that asks for nothing writes nothing
    elseif spec.rule == 'l' then
      write_log(spec, key, st, allowed)
    elseif allowed then
      take[spec.rule](spec, st, now)
      change(spec, key, st)
    elseif refuse[spec.rule](spec, st, now) then
      change(spec, key, st)
    end
  end
end

-- What quick.lua leaves behind.
for n = 1, shared do
  local row, key = 5 * n - 4, KEYS[n]
  local a, b, c = rows[row + 1], rows[row + 2], rows[row + 3]
  if rows[row] then
    local spec = spec_of(rows[row])
    if spec.rule == 'f' then
      states[key] = fixed_of(a, b, c, spec.w, spec.a, spec.l, spec.shape)
    elseif spec.rule == 's' then
      states[key] = counter_of(a, b, c, spec.w, spec.l, spec.shape)
    else
      states[key] = meter_of(a, b, spec.shape, false)
    end
    if rows[row + 4] then change(spec, key, states[key]) end
  end
end

while at <= last do
  decide(at + 1, at + 2 * plan[at])
  at = at + 1 + 2 * plan[at]
end
