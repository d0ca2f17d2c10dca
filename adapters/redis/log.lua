-- The log of a topic is one hash, so that a cluster moves it, and a full server evicts it,
-- as a whole. Its fields:
--
--   e         the epoch
--   o, t, a   the offset of the last message, its tag, and when it was appended (0, 0 and when the log
--             was begun, without one)
--   b         the bytes of the frames of all messages that were ever appended
--   l         the offset of the oldest message that is kept
--   f         the offset of the oldest message that is in the hash still
--   y         how old messages may be
--   p, q      the number of the oldest id, and that of the next one
--   <offset>  a message: 'tag previousTag time bytesBefore bytes\n' and what is published of it
--   i<id>     the place of the message with the id: 'offset tag'
--   n<number> an id: 'time id'
--
-- All times are in milliseconds, by the server's clock, and never less than that of the last
-- message: when the clock is set back, messages are kept for longer.
--
-- KEYS[1]  the hash; of 'heads', each
-- ARGV[1]  'append', 'read' or 'heads'
-- of 'append' and 'read':
-- ARGV[2]  the epoch if the log has to be begun
-- ARGV[3]  how old messages may be
-- of 'append':
-- ARGV[4]  how many messages the log has at most
-- ARGV[5]  how many bytes
-- ARGV[6]  the command that publishes
-- ARGV[7]  the channel
-- ARGV[8]  how many messages are appended
-- ARGV[9]… of each: tag, bytes of its frame, and what is published of it; then of each id: the number of its
--          message, from 1, and the id
-- of 'read':
-- ARGV[4]  the epoch of the position from which to read, '0' for none
-- ARGV[5]  its offset
-- ARGV[6]  its tag
-- ARGV[7]  '1' to read backwards
-- ARGV[8]  how many messages to read at most
-- ARGV[9]  how many bytes, but for the first message
-- ARGV[10] how many bytes the first message may have

local call, number = redis.call, tonumber
local window, tolerance = 120000, 60000
local time = call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local key, log, now

-- text is an integer in decimal. Up to 14 digits, .. writes the same and is faster.
local function text(n)
	if n < 1e14 then return n .. '' end
	return string.format('%.0f', n)
end

-- open reads the log of a key. A key that is something else is not ours.
local function open(k)
	key, log, now = k, nil, clock
	local v = redis.pcall('HMGET', key, 'e', 'o', 't', 'a', 'b', 'l', 'f', 'y', 'p', 'q')
	if not v.err and v[1] then
		log = { e = v[1], o = number(v[2]), t = v[3], a = number(v[4]), b = number(v[5]),
			l = number(v[6]), f = number(v[7]), y = number(v[8]), p = number(v[9]), q = number(v[10]) }
		if log.o and log.t and log.a and log.b and log.l and log.f and log.y and log.p and log.q then
			now = math.max(clock, log.a)
			return true
		end
	end
	log = nil
	if v.err or v[1] then
		call('DEL', key)
	end
	return false
end

local function begin(epoch, age)
	log = { e = epoch, o = 0, t = '0', a = now, b = 0, l = 1, f = 1, y = age, p = 0, q = 0 }
	call('HSET', key, 'e', epoch, 'o', '0', 't', '0', 'a', text(now), 'b', '0', 'l', '1', 'f', '1', 'y', text(age), 'p', '0', 'q', '0')
	call('PEXPIRE', key, text(math.max(2 * age, window) + tolerance))
end

-- last keeps the log for as long as it has to be kept from now on.
local function last()
	call('PEXPIRE', key, text(math.max(2 * log.y, window) + tolerance), 'GT')
end

local function parts(value)
	local tag, previous, at, before, bytes = string.match(value or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)\n')
	return tag, previous, number(at), number(before), number(bytes)
end

-- trim finds the oldest message that is kept. If none is, its offset is the one behind the last.
-- fresh has the bytes before messages that are appended now, and may not be in the hash yet.
local function trim(messages, bytes, fresh)
	local function over(offset)
		local at, before
		if fresh and fresh[offset] then
			at, before = now, fresh[offset]
		else
			local _
			_, _, at, before = parts(call('HGET', key, text(offset)))
		end
		return not at or now - at > log.y or offset < log.o and log.b - before > bytes
	end
	local low = math.max(log.l, log.o - messages + 1)
	if low > log.o or not over(low) then
		log.l = low
		return
	end
	local step, high = 1, low + 1
	while high <= log.o and over(high) do
		low, step = high, 2 * step
		high = low + step
	end
	high = math.min(high, log.o + 1)
	while high - low > 1 do
		local middle = math.floor((low + high) / 2)
		if over(middle) then low = middle else high = middle end
	end
	log.l = high
end

-- remove deletes what is not kept, and ids that are too old, not too many at once.
local function remove(most)
	local names = {}
	while log.f < log.l and #names < most do
		names[#names + 1] = text(log.f)
		log.f = log.f + 1
	end
	most = #names + most
	while log.p < log.q and #names < most do
		local id = 'n' .. text(log.p)
		local at, name = string.match(call('HGET', key, id) or '', '^(%d+) (.*)$')
		if at and now - at <= window then break end
		names[#names + 1] = id
		names[#names + 1] = 'i' .. (name or '')
		log.p = log.p + 1
	end
	if #names > 0 then
		call('HDEL', key, unpack(names))
		call('HSET', key, 'l', text(log.l), 'f', text(log.f), 'p', text(log.p))
	end
end

-- append returns the epoch and the offset of the first new message, and of each whose id is known its
-- number and its place. The others have the next offsets.
local function append()
	local messages, bytes, age = number(ARGV[4]), number(ARGV[5]), number(ARGV[3])
	if not open(KEYS[1]) then begin(ARGV[2], age) end
	log.y = age
	local set, fresh, ids, places, bundle, reply = {}, {}, {}, {}, {}, { log.e, log.o + 1 }
	local head = '\5' .. log.e .. ' ' .. text(log.o + 1) .. ' ' .. log.t .. '\n'
	local at = ' ' .. text(now) .. ' '
	local o, t, b, n, count = log.o, log.t, log.b, 0, number(ARGV[8])
	for i = 9 + 3 * count, #ARGV, 2 do
		ids[number(ARGV[i])] = ARGV[i + 1]
	end
	for k = 1, count do
		local i = 6 + 3 * k
		local tag, size, message, id = ARGV[i], ARGV[i + 1], ARGV[i + 2], ids[k]
		local place = id and (places[id] or call('HGET', key, 'i' .. id))
		if place then
			reply[#reply + 1] = k
			reply[#reply + 1] = place
		else
			o, n = o + 1, n + 1
			local name = text(o)
			fresh[o] = b
			set[2 * n - 1] = name
			set[2 * n] = tag .. ' ' .. t .. at .. text(b) .. ' ' .. size .. '\n' .. message
			b, t = b + size, tag
			bundle[n] = message
			if id then
				places[id] = name .. ' ' .. tag
			end
		end
	end
	log.o, log.t, log.b = o, t, b
	for id, place in pairs(places) do
		set[#set + 1] = 'i' .. id
		set[#set + 1] = place
		set[#set + 1] = 'n' .. text(log.q)
		set[#set + 1] = text(now) .. ' ' .. id
		log.q = log.q + 1
	end
	if #set == 0 then
		last()
		return reply
	end
	log.a = now
	-- This comes first: a full server refuses it, unless something was written before.
	call('HSET', key, 'o', text(log.o), 't', log.t, 'a', text(now), 'b', text(log.b), 'y', text(age), 'q', text(log.q), unpack(set))
	last()
	trim(messages, bytes, fresh)
	remove(1000)
	call(ARGV[6], ARGV[7], head .. table.concat(bundle))
	return reply
end

-- read returns the head, the word for what was lost, 1 if there is more, the offset of the first
-- message, and the messages in the order in which they were read.
local function read()
	if not open(KEYS[1]) then begin(ARGV[2], number(ARGV[3])) end
	last()
	trim(math.huge, math.huge)
	remove(1000)
	local from, to, backwards = log.l, log.o, ARGV[7] == '1'
	local function lost(why) return { log.e, text(log.o), log.t, why, 0, '0' } end
	if ARGV[4] ~= '0' then
		local at, tag = number(ARGV[5]), log.t
		if ARGV[4] ~= log.e then return lost('epoch') end
		if at > log.o then return lost('rewound') end
		if at + 1 < from then return lost('trimmed') end
		if at < log.o then
			local _
			_, tag = parts(call('HGET', key, text(at + 1)))
		end
		if tag ~= ARGV[6] then return lost('rewound') end
		if not backwards then
			from = at + 1
		elseif at < from and from <= log.o and at > 0 then
			return lost('trimmed')
		else
			to = at - 1
		end
	end
	local total = math.max(to - from + 1, 0)
	local count, bytes, largest = math.min(number(ARGV[8]), total), number(ARGV[9]), number(ARGV[10])
	local reply, n, read, chunk = { log.e, text(log.o), log.t, '', 0, '0' }, 0, 0, 1
	while n < count do
		local names = {}
		for i = n, math.min(n + chunk, count) - 1 do
			names[#names + 1] = text(backwards and to - i or from + i)
		end
		for _, value in ipairs(call('HMGET', key, unpack(names))) do
			local _, _, _, _, size = parts(value)
			if not size then return lost('trimmed') end
			read = read + size
			if read > (n == 0 and largest or bytes) then
				count = n
				break
			end
			n = n + 1
			reply[#reply + 1] = value
		end
		chunk = math.max(1, math.min(256, math.floor((bytes - read) / math.max(1, read / n))))
	end
	if n < total then reply[5] = 1 end
	reply[6] = text(backwards and to - n + 1 or from)
	return reply
end

local function heads()
	local reply = {}
	for _, k in ipairs(KEYS) do
		if open(k) then
			last()
			trim(math.huge, math.huge)
			remove(100)
			reply[#reply + 1] = log.e
			reply[#reply + 1] = text(log.o)
			reply[#reply + 1] = log.t
		else
			for _ = 1, 3 do reply[#reply + 1] = '0' end
		end
	end
	return reply
end

if ARGV[1] == 'append' then return append() end
if ARGV[1] == 'read' then return read() end
return heads()
