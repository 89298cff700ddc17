-- What every script begins with: the time, what is asked, and how numbers are written. TIME is the only clock.
-- KEYS are the states' keys, each once. ARGV[1] is the plan, a byte for each number: up to which of the keys more than
-- one question is about, then of each request how many questions it has, and of each of them which of the keys it is
-- about and which of the arguments behind the plan says what it asks.
local call, try = redis.call, redis.pcall
local fmod, format, match, sub, byte = math.fmod, string.format, string.match, string.sub, string.byte
local all_of, pack, unpack = unpack, struct.pack, struct.unpack
local WHOLE = 9007199254740992
local clock = call('TIME') --@CLOCK
local now = clock[1] * 1000000 + clock[2] --@CLOCK
local plan = { byte(ARGV[1], 1, -1) }

-- How whole numbers below 2^53 are written. '%d' is twice as fast as '%.0f', and has 64 bits where a long has.
local WIDE = struct.size('l') == 8
local NUMBER, DIGITS = WIDE and '%d' or '%.0f', WIDE and '%016d' or '%016.0f'
