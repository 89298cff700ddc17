local function whole(x) return format(NUMBER, x) end
local function digits(x) return format(DIGITS, x) end

-- Whole numbers beyond the 53 bits of Lua's: digits to base 128, the least first. All else is below 2^53 and exact.
-- b, c and w are below 2^45, so that no step leaves the whole numbers of a double.

-- a * b + c
local function big(a, b, c)
  local d, carry, n = {}, c, 0
  while a > 0 or carry > 0 do
    local r = fmod(a, 128)
    a = (a - r) / 128
    carry = carry + r * b
    r = fmod(carry, 128)
    n = n + 1
    d[n] = r
    carry = (carry - r) / 128
  end
  return d
end

local function times(d, b)
  local carry, n = 0, 1
  while d[n] or carry > 0 do
    carry = carry + (d[n] or 0) * b
    local r = fmod(carry, 128)
    d[n] = r
    carry = (carry - r) / 128
    n = n + 1
  end
end

-- d becomes the quotient by w; the remainder
local function over(d, w)
  local r = 0
  for n = #d, 1, -1 do
    local x = r * 128 + d[n]
    r = fmod(x, w)
    d[n] = (x - r) / w
  end
  return r
end

-- beyond 2^53 it is not exact, but far above all that it is compared with
local function number(d)
  local v = 0
  for n = #d, 1, -1 do v = v * 128 + d[n] end
  return v
end

-- a * b + c divided by w, and the remainder
local function divided(a, b, c, w)
  local x = a * b + c
  if x < WHOLE then
    local r = fmod(x, w)
    return (x - r) / w, r
  end
  local d = big(a, b, c)
  local r = over(d, w)
  return number(d), r
end

-- the same, rounded up
local function raised_to(a, b, c, w)
  local v, r = divided(a, b, c, w)
  if r > 0 then return v + 1 end
  return v
end
