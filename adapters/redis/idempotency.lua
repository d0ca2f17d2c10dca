-- One key of idempotency: a hash of the digest, the execution, and the answer once there
-- is one.
--
-- KEYS[1]  the hash
-- KEYS[2]  the keys of the same subject: a sorted set of names by the milliseconds at
--          which they expire. The name of one with an answer follows the answer's size in
--          bytes and a space
-- KEYS[3]  the bytes of all answers of the subject
-- ARGV[1]  'begin', 'renew', 'finish' or 'release'
-- ARGV[2]  the digest
-- ARGV[3]  the execution
-- ARGV[4]  how many milliseconds the claim or the answer lasts
-- ARGV[5]  how many keys a subject may have
-- ARGV[6]  of how many bytes its answers may be
-- ARGV[7]  of 'finish', the answer
--
-- The reply is a word, for 'answered' with the answer behind it.

local call = redis.call
local operation, digest, execution = ARGV[1], ARGV[2], ARGV[3]

-- A key of another type is not ours.
local known = redis.pcall('HMGET', KEYS[1], 'digest', 'execution', 'answer')
if known.err then
	call('DEL', KEYS[1])
	known = { false, false, false }
end
local index = redis.pcall('ZCARD', KEYS[2])
if type(index) == 'table' then
	call('DEL', KEYS[2])
end

local bytes = redis.pcall('GET', KEYS[3])
bytes = type(bytes) == 'string' and tonumber(bytes) or 0

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- last makes the key last as long as ARGV[4] says from now on, under a name in the index, and what is
-- kept of the subject as long as the last of its keys.
local function last(name)
	local ms = tonumber(ARGV[4])
	call('PEXPIRE', KEYS[1], ARGV[4])
	call('ZADD', KEYS[2], string.format('%.0f', now + ms), name)
	local left = call('PTTL', KEYS[2])
	if left < ms then
		call('PEXPIRE', KEYS[2], ARGV[4])
		left = ms
	end
	if bytes > 0 then
		call('SET', KEYS[3], string.format('%.0f', bytes), 'PX', string.format('%.0f', left))
	end
end

-- forget takes what has expired out of the index.
local function forget()
	local till = string.format('%.0f', now)
	for _, name in ipairs(call('ZRANGE', KEYS[2], '-inf', till, 'BYSCORE')) do
		bytes = bytes - (tonumber(string.match(name, '^(%d+) ')) or 0)
	end
	call('ZREMRANGEBYSCORE', KEYS[2], '-inf', till)
	if bytes > 0 and call('ZCARD', KEYS[2]) > 0 then
		call('SET', KEYS[3], string.format('%.0f', bytes), 'KEEPTTL')
	else
		bytes = 0
		call('DEL', KEYS[3])
	end
end

local function claim()
	forget()
	if call('ZCARD', KEYS[2]) >= tonumber(ARGV[5]) then
		return { 'full' }
	end
	call('HSET', KEYS[1], 'digest', digest, 'execution', execution)
	last(KEYS[1])
	return { 'claimed' }
end

if operation == 'release' then
	if known[2] == execution and not known[3] then
		call('DEL', KEYS[1])
		call('ZREM', KEYS[2], KEYS[1])
	end
	return { 'done' }
end

if operation == 'begin' then
	if not known[1] then
		return claim()
	elseif known[1] ~= digest then
		return { 'mismatch' }
	elseif known[3] then
		return { 'answered', known[3] }
	elseif known[2] ~= execution then
		return { 'running' }
	end
	last(KEYS[1])
	return { 'claimed' }
end

if known[2] and known[2] ~= execution or operation == 'renew' and known[3] then
	return { 'lost' }
end
if known[3] then
	return { 'done' } -- by the same call before
end
local size = operation == 'finish' and #ARGV[7] or 0
if size > 1 then
	forget()
	if bytes + size > tonumber(ARGV[6]) then
		return { 'full' }
	end
end
if not known[1] then
	local reply = claim()
	if reply[1] == 'full' then
		return reply
	end
end
local name = KEYS[1]
if operation == 'finish' then
	call('HSET', KEYS[1], 'answer', ARGV[7])
	call('ZREM', KEYS[2], name)
	name = string.format('%.0f', size) .. ' ' .. name
	bytes = bytes + size
end
last(name)
return { 'done' }
