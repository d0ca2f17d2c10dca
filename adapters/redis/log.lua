-- The log of a topic is one hash, so that a cluster moves it, and a full server evicts it,
-- as a whole. Messages that are appended by one call are one field, a bundle, so that the call does
-- the same work for many as for one. The fields:
--
--   e         the epoch
--   o, t, a   the offset of the last message, its tag, and when it was appended (0, 0 and when the log
--             was begun, without one)
--   b         the bytes of the frames of all messages that were ever appended
--   l         the offset of the oldest message that is kept
--   x, z, w   the number of the bundle that has it, when that was appended, and the bytes of the frames
--             of all messages before it (without one they mean nothing)
--   f, g      the number of the oldest bundle that is in the hash still, and that of the next one
--   y         how old messages may be
--   p, q      the number of the oldest id, and that of the next one
--   <number>  a bundle: 'offset count previousTag time bytesBefore\n', its index and what is published of it.
--             The offset is that of its first message, and previousTag of the message before that. The
--             index has three numbers of four bytes for each message: its tag, and the bytes of the
--             frames, and of what is published, of it and of those before it in the bundle.
--   i<id>     the place of the message with the id: 'offset tag'
--   n<number> an id: 'time id'
--
-- Messages of a bundle are not kept any more one by one; the bundle is in the hash until none is kept.
--
-- All times are in milliseconds, by the server's clock, and never less than that of the last
-- message: when the clock is set back, messages are kept for longer.
--
-- KEYS[1]  the hash; of 'heads', each
-- ARGV[1]  'append', 'read', 'heads' or 'replace'
-- of 'append' and 'read':
-- ARGV[2]  the epoch if the log has to be begun
-- ARGV[3]  how old messages may be
-- of 'append':
-- ARGV[4]  how many messages the log has at most
-- ARGV[5]  how many bytes
-- ARGV[6]  the command that publishes
-- ARGV[7]  the channel
-- ARGV[8]  how many messages are appended
-- ARGV[9]  their index
-- ARGV[10] what is published of them
-- ARGV[11]… of each id: the number of its message, from 1, and the id
-- of 'read':
-- ARGV[4]  the epoch of the position from which to read, '0' for none
-- ARGV[5]  its offset
-- ARGV[6]  its tag
-- ARGV[7]  '1' to read backwards
-- ARGV[8]  how many messages to read at most
-- ARGV[9]  how many bytes, but for the first message
-- ARGV[10] how many bytes the first message may have
-- of 'replace':
-- ARGV[2]  the epoch of the message
-- ARGV[3]  its offset
-- ARGV[4]  its tag
-- ARGV[5]  the bytes of its new frame
-- ARGV[6]  what is to be read of it

local call, number = redis.call, tonumber
local window, tolerance = 120000, 60000
local time = call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local key, log, now, bundles

-- text is an integer in decimal. Up to 14 digits, .. writes the same and is faster.
local function text(n)
	if n < 1e14 then return n .. '' end
	return string.format('%.0f', n)
end

-- The numbers of a log, by their fields.
local fields = { 'o', 'a', 'b', 'l', 'x', 'z', 'w', 'f', 'g', 'y', 'p', 'q' }

-- open reads the log of a key. A key that is something else is not ours.
local function open(k)
	key, log, now, bundles = k, nil, clock, {}
	local v = redis.pcall('HMGET', key, 'e', 't', unpack(fields))
	if not v.err and v[1] and v[2] then
		log = { e = v[1], t = v[2] }
		local whole = true
		for i, name in ipairs(fields) do
			log[name] = number(v[i + 2])
			whole = whole and log[name]
		end
		if whole then
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
	log = { e = epoch, o = 0, t = '0', a = now, b = 0, l = 1, x = 1, z = now, w = 0, f = 1, g = 1, y = age, p = 0, q = 0 }
	local set = { 'e', epoch, 't', '0' }
	for _, name in ipairs(fields) do
		set[#set + 1] = name
		set[#set + 1] = text(log[name])
	end
	call('HSET', key, unpack(set))
	call('PEXPIRE', key, text(math.max(2 * age, window) + tolerance))
end

-- last keeps the log for as long as it has to be kept from now on.
local function last()
	call('PEXPIRE', key, text(math.max(2 * log.y, window) + tolerance), 'GT')
end

-- parse takes a bundle apart, and returns nil if it is none.
local function parse(n, value)
	local first, count, previous, at, before, index = string.match(value or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)\n()')
	if not first then return nil end
	local b = { n = n, first = number(first), count = number(count), previous = previous, at = number(at),
		before = number(before), value = value, index = index, body = index + 12 * count }
	if b.count < 1 or b.body > #value then return nil end
	return b
end

-- bundle returns the bundle with a number. It reads so many at once, in a direction.
local function bundle(n, many, step)
	if bundles[n] == nil then
		local names = {}
		for i = n, n + (many - 1) * step, step do names[#names + 1] = text(i) end
		for i, value in ipairs(call('HMGET', key, unpack(names))) do
			local at = n + (i - 1) * step
			bundles[at] = parse(at, value) or false
		end
	end
	return bundles[n] or nil
end

-- of returns the number of the index of a bundle's message: 1 its tag, 2 the bytes of frames up to its end,
-- 3 those of what is published. The message before the first has 0.
local function of(b, message, which)
	if message == 0 then return 0 end
	return (struct.unpack('>I4', b.value, b.index + 12 * message + 4 * which - 16))
end

-- search returns the first number from low to high for which is returns true, and high + 1 if there is none. It
-- returns true for all that follow.
local function search(low, high, is)
	while low <= high do
		local middle = math.floor((low + high) / 2)
		if is(middle) then high = middle - 1 else low = middle + 1 end
	end
	return low
end

-- find returns the bundle that has a message which is kept, and nil if that is damaged.
local function find(offset)
	local whole = true
	local n = search(log.x + 1, log.g - 1, function(n)
		local b = bundle(n, 1, 1)
		whole = whole and b
		return b and b.first > offset
	end) - 1
	local b = bundle(n, 1, 1)
	if whole and b and b.first <= offset and offset < b.first + b.count then return b end
	return nil
end

-- previous returns the tag of the message before one of a bundle.
local function previous(b, message)
	if message == 1 then return b.previous end
	return text(of(b, message - 1, 1))
end

-- trim finds the oldest message that is kept. If none is, its offset is the one behind the last.
local function trim(messages, bytes)
	if log.l > log.o then return end
	local low = math.max(log.l, log.o - messages + 1)
	if low == log.l and now - log.z <= log.y and log.b - log.w <= bytes then return end
	-- gone says that no message of a bundle is kept: a damaged one has none.
	local function gone(n)
		local b = bundle(n, 1, 1)
		if not b then return true end
		local final = b.first + b.count - 1
		return final < low or now - b.at > log.y or final < log.o and log.b - b.before - of(b, b.count - 1, 2) > bytes
	end
	local n, step = log.x, 1
	while n < log.g and gone(n) do
		n, step = n + step, 2 * step
	end
	if step > 2 then
		local from = n - step / 2 + 1
		n = search(from, math.min(n, log.g) - 1, function(i) return not gone(i) end)
	end
	if n >= log.g then
		log.l, log.x = log.o + 1, log.g
		return
	end
	local b = bundle(n, 1, 1)
	low = math.max(low, b.first)
	if bytes < math.huge then
		low = b.first - 1 + search(low - b.first + 1, b.count, function(i)
			return b.first + i - 1 == log.o or log.b - b.before - of(b, i - 1, 2) <= bytes
		end)
	end
	log.l, log.x, log.z, log.w = low, n, b.at, b.before + of(b, low - b.first, 2)
end

-- remove deletes what is not kept, and ids that are too old, not too many at once.
local function remove(most)
	local names = {}
	while log.f < log.x and #names < most do
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
	end
	return #names > 0
end

-- clean removes what is not kept, and writes down what is.
local function clean(messages, bytes, most)
	local l = log.l
	trim(messages, bytes)
	if remove(most) or log.l ~= l then
		call('HSET', key, 'l', text(log.l), 'x', text(log.x), 'z', text(log.z), 'w', text(log.w), 'f', text(log.f), 'p', text(log.p))
	end
end

-- fresh leaves out the messages whose ids are known, and adds the number and the place of each to the
-- reply. It adds the fields of the other ids to set, and returns how many messages are left, their index and
-- what is published of them.
local function fresh(count, index, body, reply, set)
	local ids, names, places = {}, {}, {}
	for i = 11, #ARGV, 2 do
		ids[number(ARGV[i])] = ARGV[i + 1]
		names[#names + 1] = 'i' .. ARGV[i + 1]
	end
	for i, place in ipairs(call('HMGET', key, unpack(names))) do
		places[ARGV[10 + 2 * i]] = place or nil
	end
	local entries, bodies, frames, size, sum, from = {}, {}, 0, 0, 0, 0
	for k = 1, count do
		local tag, total, to = struct.unpack('>I4I4I4', index, 12 * k - 11)
		local id = ids[k]
		if id and places[id] then
			reply[#reply + 1] = k
			reply[#reply + 1] = places[id]
		else
			frames, size = frames + total - sum, size + to - from
			entries[#entries + 1] = struct.pack('>I4I4I4', tag, frames, size)
			bodies[#bodies + 1] = string.sub(body, from + 1, to)
			if id then
				places[id] = text(log.o + #entries) .. ' ' .. text(tag)
				set[#set + 1] = 'i' .. id
				set[#set + 1] = places[id]
				set[#set + 1] = 'n' .. text(log.q)
				set[#set + 1] = text(now) .. ' ' .. id
				log.q = log.q + 1
			end
		end
		sum, from = total, to
	end
	return #entries, table.concat(entries), table.concat(bodies)
end

-- append returns the epoch and the offset of the first new message, and of each whose id is known its
-- number and its place. The others have the next offsets.
local function append()
	local messages, bytes, age = number(ARGV[4]), number(ARGV[5]), number(ARGV[3])
	if not open(KEYS[1]) then begin(ARGV[2], age) end
	log.y = age
	local count, index, body, reply, set = number(ARGV[8]), ARGV[9], ARGV[10], { log.e, log.o + 1 }, {}
	if #ARGV > 10 then
		count, index, body = fresh(count, index, body, reply, set)
	end
	if count == 0 then
		last()
		return reply
	end
	local at = ' ' .. log.t
	local tag, size = struct.unpack('>I4I4', index, 12 * count - 11)
	local value = text(log.o + 1) .. ' ' .. text(count) .. at .. ' ' .. text(now) .. ' ' .. text(log.b) .. '\n' .. index .. body
	local head = '\5' .. log.e .. ' ' .. text(log.o + 1) .. at .. '\n'
	if log.l > log.o then log.x, log.z, log.w = log.g, now, log.b end
	log.o, log.t, log.a, log.b, log.g = log.o + count, text(tag), now, log.b + size, log.g + 1
	-- This comes first: a full server refuses it, unless something was written before.
	call('HSET', key, 'o', text(log.o), 't', log.t, 'a', text(now), 'b', text(log.b), 'x', text(log.x), 'z', text(log.z), 'w', text(log.w),
		'g', text(log.g), 'y', text(age), 'q', text(log.q), text(log.g - 1), value, unpack(set))
	last()
	clean(messages, bytes, 1000)
	call(ARGV[6], ARGV[7], head .. body)
	return reply
end

-- read returns the head, the word for what was lost, 1 if there is more, the offset of the first
-- message, and of each part of a bundle, in order, the number of messages, the tag before them, and
-- what was published of them.
local function read()
	if not open(KEYS[1]) then begin(ARGV[2], number(ARGV[3])) end
	last()
	clean(math.huge, math.huge, 1000)
	local from, to, backwards = log.l, log.o, ARGV[7] == '1'
	local function lost(why) return { log.e, text(log.o), log.t, why, 0, '0' } end
	if ARGV[4] ~= '0' then
		local at, tag = number(ARGV[5]), log.t
		if ARGV[4] ~= log.e then return lost('epoch') end
		if at > log.o then return lost('rewound') end
		if at + 1 < from then return lost('trimmed') end
		if at < log.o then
			local b = find(at + 1)
			tag = b and previous(b, at + 2 - b.first)
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
	local reply, parts, n, size = { log.e, text(log.o), log.t, '', 0, '0' }, {}, 0, 0
	local step, b, low = backwards and -1 or 1, nil, from
	while n < count do
		if not b then
			b = find(backwards and to or from)
		else
			local ahead = math.floor(#parts * math.min((count - n) / n, (bytes - size) / math.max(1, size)))
			b = bundle(b.n + step, math.max(1, math.min(256, ahead)), step)
		end
		local at = backwards and to - n or from + n
		if not b or at < b.first or at >= b.first + b.count then return lost('trimmed') end
		-- Of the messages i to j of the bundle, some fit.
		local i, j = at - b.first + 1, math.min(b.count, at - b.first + count - n)
		if backwards then i, j = math.max(1, from - b.first + 1, at - b.first + 2 - count + n), i end
		local some, fits, full = 0, nil, nil -- the first message may have more bytes
		local next = backwards and j or i
		if n == 0 and of(b, next, 2) - of(b, next - 1, 2) <= largest then some = 1 end
		if backwards then
			fits = search(i, j - some, function(k) return size + of(b, j, 2) - of(b, k - 1, 2) <= bytes end)
			full, i = fits > i, fits
		else
			fits = search(i + some, j, function(k) return size + of(b, k, 2) - of(b, i - 1, 2) > bytes end) - 1
			full, j = fits < j, fits
		end
		if i <= j then
			n, size = n + j - i + 1, size + of(b, j, 2) - of(b, i - 1, 2)
			if backwards then low = b.first + i - 1 end
			parts[#parts + 1] = { j - i + 1, previous(b, i), string.sub(b.value, b.body + of(b, i - 1, 3), b.body + of(b, j, 3) - 1) }
		end
		if full then count = n end
	end
	if n < total then reply[5] = 1 end
	reply[6] = text(low)
	for i = 1, #parts do
		for _, v in ipairs(parts[backwards and #parts - i + 1 or i]) do reply[#reply + 1] = v end
	end
	return reply
end

local function heads()
	local reply = {}
	for _, k in ipairs(KEYS) do
		if open(k) then
			last()
			clean(math.huge, math.huge, 100)
			reply[#reply + 1] = log.e
			reply[#reply + 1] = text(log.o)
			reply[#reply + 1] = log.t
		else
			for _ = 1, 3 do reply[#reply + 1] = '0' end
		end
	end
	return reply
end

-- replace returns 1 if the log has the message. The bundle gets other sizes, and 'b' stays as it is: for the bytes that are
-- kept at most, a message behind it in the bundle counts for as much more or less, until the bundle is removed.
local function replace()
	if not open(KEYS[1]) or log.e ~= ARGV[2] then return 0 end
	trim(math.huge, math.huge)
	local at = number(ARGV[3])
	local b = at >= log.l and at <= log.o and find(at)
	local i = b and at - b.first + 1
	if not b or text(of(b, i, 1)) ~= ARGV[4] then return 0 end
	local frame = number(ARGV[5]) - of(b, i, 2) + of(b, i - 1, 2)
	local from, to = b.body + of(b, i - 1, 3), b.body + of(b, i, 3)
	local size, parts = #ARGV[6] - to + from, { string.sub(b.value, 1, b.index - 1) }
	for k = 1, b.count do
		local frames, sizes = of(b, k, 2), of(b, k, 3)
		if k >= i then frames, sizes = frames + frame, sizes + size end
		parts[#parts + 1] = struct.pack('>I4I4I4', of(b, k, 1), frames, sizes)
	end
	parts[#parts + 1] = string.sub(b.value, b.body, from - 1)
	parts[#parts + 1] = ARGV[6]
	parts[#parts + 1] = string.sub(b.value, to)
	call('HSET', key, text(b.n), table.concat(parts))
	return 1
end

if ARGV[1] == 'append' then return append() end
if ARGV[1] == 'read' then return read() end
if ARGV[1] == 'replace' then return { replace() } end
return heads()
