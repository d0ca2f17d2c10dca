-- The leases under one key: a sorted set of ids by the instants, in microseconds, at
-- which they end. All numbers are integers that doubles represent exactly.
--
-- KEYS[1]  the set
-- ARGV[1]  the instant; '' for the clock of this server
-- ARGV[2]  how many milliseconds a lease is kept after it has expired, because the clock
--          may be set back by as much
-- ARGV[3]  'acquire', 'renew', 'release' or 'held'
-- ARGV[4]  the duration of the lease in microseconds
-- ARGV[5]  for 'acquire' the limit; for 'held' the largest number of ids
-- ARGV[6…] the ids; for 'acquire' one, for 'held' none
--
-- The reply is the instant, the number of leases before the call (for 'acquire' without
-- its own), when the first lease after the call ends, or 0, and for 'held' the ids.

-- The largest number of expired leases that one call removes. The others do not count
-- either, and are removed by later calls.
local SWEEP = 1000

-- An hour, or ten leases if that is longer: how far ahead a lease may end.
local LONGEST = 3600000000

local call, format, floor, min, max = redis.call, string.format, math.floor, math.min, math.max
local key, longer, operation = KEYS[1], tonumber(ARGV[2]), ARGV[3]

local function text(n)
	return format('%.0f', n)
end

local now = tonumber(ARGV[1])
local own = not now -- the clock is the server's
if own then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end

-- hold adds leases from ARGV[6] on. The set expires after the last of its leases. If now
-- is not of this server's clock, the duration is measured by the server's clock.
local function hold()
	local till = text(now + ARGV[4])
	local scores = {}
	for i = 6, #ARGV do
		scores[#scores + 1] = till
		scores[#scores + 1] = ARGV[i]
	end
	call('ZADD', key, unpack(scores))
	local last = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
	if own then
		call('PEXPIREAT', key, text(floor((last + 999) / 1000) + longer))
	else
		call('PEXPIRE', key, text(floor((max(0, last - now) + 999) / 1000) + longer))
	end
end

local any = redis.pcall('ZCOUNT', key, '-inf', '+inf')
if type(any) == 'table' and any.err:find('WRONGTYPE', 1, true) then
	call('DEL', key) -- a key of another type has no leases
end

if operation == 'release' then
	call('ZREM', key, unpack(ARGV, 6))
	return { now, 0, 0, {} }
end

-- A lease that ends later than is possible is not valid, and does not count.
local alive, far = '(' .. text(now), '+inf'
if operation ~= 'held' then
	local last = now + max(LONGEST, 10 * ARGV[4])
	far = text(last)
	local foreign = call('ZCOUNT', key, '(' .. far, '+inf')
	if foreign > 0 then
		call('ZREMRANGEBYRANK', key, -foreign, -1)
	end
	local over = call('ZCOUNT', key, '-inf', text(now - longer * 1000))
	if over > 0 then
		call('ZREMRANGEBYRANK', key, 0, min(over, SWEEP) - 1)
	end
end
local held = call('ZCOUNT', key, alive, far)
if operation == 'acquire' then
	local own = call('ZSCORE', key, ARGV[6])
	if own and tonumber(own) > now then
		held = held - 1
	end
	if held < tonumber(ARGV[5]) then
		hold()
	end
elseif operation == 'renew' then
	hold()
end
local ids = {}
if operation == 'held' and ARGV[5] ~= '0' then
	ids = call('ZRANGE', key, alive, far, 'BYSCORE', 'LIMIT', 0, ARGV[5])
end
local first = call('ZRANGE', key, alive, far, 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
return { now, held, tonumber(first or 0), ids }
