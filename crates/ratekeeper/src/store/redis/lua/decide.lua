-- Decides requests one after another, each all or nothing. An argument that begins with "+" belongs to the request of
-- the one before it. The answer is the time, and for each request what became of it (0 refused, 1 allowed, 2 the
-- calendar is too short, 3 not ours) and the state of each limit as it was read, from which the caller works out all
-- else by the same rules.
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

local function asked(text) return specs[text] or spec_of(text) end

-- What is known of each question's state.
local plan = {}

local function decide(first, last)
  local at = #out + 1
  out[at] = 1
  local allowed, verdict = true, nil
  for x = first, last do
    local spec, ok = asked(ARGV[x]), nil
    local st = state(spec, KEYS[x])
    if not st then
      verdict = 3
    elseif spec.rule == 'l' then
      ok = log_ask(spec, st, out, KEYS[x])
    else
      ok = asks[spec.rule](spec, st, out, now)
      if ok == nil then verdict = verdict or 2 end
    end
    if ok == nil then
      for _ = 1, FIELDS[spec.rule] do out[#out + 1] = 0 end
    end
    if not ok then allowed = false end
    plan[x] = st
  end
  out[at] = verdict or (allowed and 1 or 0)
  if verdict or asked(ARGV[first]).op == 'p' then return end
  for x = first, last do
    local spec, key, st = asked(ARGV[x]), KEYS[x], plan[x]
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
for at = 1, held do
  local key, spec, a, b, c = key_at[at], spec_at[at], a_at[at], b_at[at], c_at[at]
  local st
  if spec.rule == 'f' then
    st = fixed_of(a, b, c, spec.w, spec.a, spec.l, spec.shape)
  elseif spec.rule == 's' then
    st = counter_of(a, b, c, spec.w, spec.l, spec.shape)
  else
    st = meter_of(a, b, spec.shape, false)
  end
  states[key] = st
  if changed_at[at] then change(spec, key, st) end
end

local first = next_question
while first <= questions do
  local last = first
  while last < questions and byte(ARGV[last + 1]) == 43 do last = last + 1 end
  decide(first, last)
  first = last + 1
end
