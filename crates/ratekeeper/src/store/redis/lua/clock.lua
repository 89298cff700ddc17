-- What every script begins with: the time, and how numbers are written. TIME is the only clock.
local fmod, floor = math.fmod, math.floor
local format, match, sub, byte = string.format, string.match, string.sub, string.byte
local call, try = redis.call, redis.pcall
local WHOLE = 9007199254740992
local clock = call('TIME') --@CLOCK
local now = clock[1] * 1000000 + clock[2] --@CLOCK

-- The digits of a whole number below 2^53: in two parts, because '%d' may have 32 bits only, and '%.0f' takes twice
-- as long.
local function whole(x)
  if x < 1000000000 then return format('%d', x) end
  local low = fmod(x, 1000000000)
  return format('%d%09d', (x - low) / 1000000000, low)
end

-- Sixteen digits of it.
local function digits(x)
  local low = fmod(x, 1000000000)
  return format('%07d%09d', (x - low) / 1000000000, low)
end

local function lives(us) return 'PXAT', whole(math.max(us - fmod(us, 1000), now - fmod(now, 1000)) / 1000 + 1) end --@EXPIRY
