-- What both scripts have around the arithmetic: the reading of states, the writing of what has changed.

-- The millisecond after that instant. It is not beyond 2^53 / 1000, so that the fraction that is cut off is exact enough.
local function lives(us) return 'PXAT', format(NUMBER, (us > now and us or now) / 1000 + 1) end --@EXPIRY
local function log_lives(key, us) call('PEXPIREAT', key, whole((us - fmod(us, 1000)) / 1000 + 1)) end --@EXPIRY

local read = { m = meter_read, q = meter_read, f = fixed_read, s = counter_read }
local fresh = { m = meter_fresh, q = meter_fresh, f = fixed_fresh, s = counter_fresh }
local text_of = { m = meter_text, q = meter_text, f = fixed_text, s = counter_text }

-- States that have been read, and those that are to be written, in the order of their first change.
local states, changed, changes = {}, {}, 0

local function state(spec, key)
  local st = states[key]
  if st then return st end
  if spec.rule == 'l' then return log_read(spec, key, now) end
  local v = try('GET', key)
  if not v then
    st = fresh[spec.rule](spec)
  elseif type(v) == 'string' then
    st = read[spec.rule](v, spec)
  elseif not match(v.err, 'WRONGTYPE') then
    call('GET', key)
  end
  states[key] = st
  return st
end

local function change(spec, key, st)
  if not st.is_changed then
    changes = changes + 1
    changed[changes] = key
    st.is_changed, st.rule = true, spec.rule
  end
end
