-- Makes the same decisions as package limit: see the Go functions of the same names. All
-- numbers are integers below 2^53, which doubles represent exactly. Quotients that are
-- rounded down are exact, too.
--
-- KEYS     the keys, each once
-- ARGV[1]  the instant in microseconds; '' for the clock of this server
-- ARGV[2]  how many milliseconds a state is kept at least after it has expired, because
--          the clock may be set back by as much
-- ARGV[3]  'buckets' if all asks take from token buckets; 'all' to charge all of the
--          asks or none; '' for any other asks, each independent
-- ARGV[4]  '' if there is one question, for every key once. Otherwise, for buckets: runs
--          of a question, key by key, five bytes each: the index of the question, how
--          often, 1 if another run of the same key follows. For anything else: the asks
--          in order, four bytes each: the index of the key and of the question
-- ARGV[5…] the questions, as doubles: operation, cost, and for a refund the instant
--          of the charge; then six numbers for each part of the policy: kind, four
--          numbers of that kind, ceiling
--
-- A state is the decimal numbers of the Go state, without the zeros at its end. It may be
-- followed by a '!' and the instant of the last reset, while that prevents refunds of
-- earlier charges.
-- The reply is the instant and, for every key, the state before the call: the client
-- computes the answers from that with the same arithmetic.
-- States that did not change are not written.

local call, byte, floor, max, min = redis.call, string.byte, math.floor, math.max, math.min
local decimal, doubles = string.format, struct.unpack -- passing a number to call is much slower than passing its text
local longer, mode, asks = tonumber(ARGV[2]), ARGV[3], ARGV[4]

local now, stamp = tonumber(ARGV[1]), ARGV[1]
local own = not now -- the clock is the server's
if own then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
	stamp = time[1] .. ' ' .. time[2]
end

local values, reply
if #KEYS == 1 then
	local value = redis.pcall('GET', KEYS[1])
	if type(value) == 'table' then
		if not value.err:find('WRONGTYPE', 1, true) then
			return value
		end
		value = false -- as in the reply of MGET; SET replaces the key
	end
	values = { value }
	reply = stamp .. ',' .. (values[1] or '')
else
	values = call('MGET', unpack(KEYS))
	reply = { stamp }
	for k = 1, #KEYS do
		reply[k + 1] = values[k] or ''
	end
	reply = table.concat(reply, ',')
end

-- A key expires at a whole number of steps (microseconds), so that most charges of a bucket leave
-- the expiry as it is: SET with an expiry takes Redis almost half as long again.
local STEP = 10000000
local latest, text_of_latest -- many states expire in the same step

-- keep stores a state until it has expired, and longer. If now is not of this server's
-- clock, the duration is measured by the server's clock.
local function keep(key, state, till)
	if state == '' then
		call('DEL', key)
	elseif own then
		local at = max(now, till)
		at = at - at % STEP + STEP
		if at ~= latest then
			latest, text_of_latest = at, decimal('%d', at / 1000 + longer)
		end
		call('SET', key, state, 'PXAT', text_of_latest)
	else
		call('SET', key, state, 'PX', decimal('%d', floor((max(0, till - now) + 999) / 1000) + longer))
	end
end

-- Splits a value into the state and the instant of the reset.
local function without_reset(value)
	local state, reset = value:match('^([^!]*)!(%d+)$')
	if state then
		return state, tonumber(reset)
	end
	return value
end

-- Whether the instant of a reset must be kept, if refunds end at till.
local TOLERANCE = longer * 1000
local function remembered(reset, till)
	return reset and till + TOLERANCE > now
end

if mode == 'buckets' then
	-- By far the most frequent case: the same as below, without a table for each state,
	-- and with one step for a run of takes.
	local keys, at, loaded, times, more = KEYS, 1, 1, 1, 0
	local _, cost, _, _, p, q, full, horizon, ceiling = doubles('>ddddddddd', ARGV[5])
	local text_t, text_f, text
	for k = 1, #keys do
		local value = values[k]
		local t, f, changed, reset = 0, 0, false, nil
		if value then
			t = tonumber(value)
			if not t then
				local whole, part = value:match('^(%d+) (%d+)$')
				if not whole then
					value, reset = without_reset(value)
					whole, part = value:match('^(%d+) ?(%d*)$')
				end
				t, f = tonumber(whole) or 0, tonumber(part) or 0
			end
			if t >= 2 ^ 53 or f >= 2 ^ 53 then
				t, f = 0, 0 -- not a valid state
			end
		end
		local before = t
		repeat
			if asks ~= '' then
				local a, b, c, d, e = byte(asks, at, at + 4)
				at, times, more = at + 5, c * 256 + d, e
				if a * 256 + b ~= loaded then
					loaded = a * 256 + b
					_, cost, _, _, p, q, full, horizon, ceiling = doubles('>ddddddddd', ARGV[4 + loaded])
				end
			end
			local owed, corrected = 0, false
			if t > now or t == now and f > 0 then
				if t - now > horizon then
					owed, corrected = full, true
				else
					owed = (t - now) * q + (f < q and f or q - 1)
				end
			end
			local price, fit = cost * p, 0
			if cost <= ceiling and price <= full - owed then
				fit = times == 1 and 1 or min(times, floor((full - owed) / price))
			end
			if fit > 0 or corrected then
				owed = owed + fit * price
				f = owed % q
				t, changed = now + (owed - f) / q, true
			end
		until more == 0
		if changed then -- a denial writes nothing
			if t ~= text_t or f ~= text_f then -- keys that were full have the same new state
				text_t, text_f, text = t, f, f == 0 and decimal('%d', t) or decimal('%d %d', t, f)
			end
			local till = f == 0 and t or t + 1
			local end_of_refunds = reset and reset + horizon - TOLERANCE
			if remembered(reset, end_of_refunds) then
				keep(keys[k], text .. decimal('!%d', reset), max(till, end_of_refunds))
			elseif own and before - before % STEP == t - t % STEP then
				call('SET', keys[k], text, 'KEEPTTL') -- that of the state before, which is in the same step
			else
				keep(keys[k], text, till)
			end
		end
	end
	return reply
end

local TAKE, RESET, REFUND = 1, 3, 4
local BUCKET, FIXED, SLIDING, LOG, CALENDAR = 1, 2, 3, 4, 5
local MAX_LOG = 1000
local gmatch = string.gmatch
local together = mode == 'all'

local questions = {}
for i = 5, #ARGV do
	local q = {}
	for at = 1, #ARGV[i], 8 do
		q[#q + 1] = doubles('>d', ARGV[i], at)
	end
	for at = 4, #q, 6 do
		if q[at] == CALENDAR and (now < q[at + 1] or now >= q[at + 4]) then
			return redis.error_reply('ERR the clocks of Redis and of the asking process differ by more than a day: set them')
		end
	end
	questions[i - 4] = q
end

-- The parts of a policy: kind k, numbers a to d, ceiling.
local function parts_of(question)
	local parts = {}
	for i = 4, #question, 6 do
		parts[#parts + 1] = {
			k = question[i], a = question[i + 1], b = question[i + 2], c = question[i + 3], d = question[i + 4],
			ceiling = question[i + 5],
		}
	end
	return parts
end

-- The states of the parts, one list each; indexes begin with 1.
local function parse(value, parts)
	local numbers, states, at = {}, {}, 1
	if value and not value:find('[^%d ]') then
		for n in gmatch(value, '%d+') do
			numbers[#numbers + 1] = tonumber(n)
			if numbers[#numbers] >= 2 ^ 53 then
				numbers = {} -- not a valid state
				break
			end
		end
	end
	for i, part in ipairs(parts) do
		local size = 2
		if part.k == SLIDING then
			size = part.b + 2
		elseif part.k == LOG then
			size = 1 + 2 * (numbers[at] or 0)
			if size > 1 + 2 * MAX_LOG then
				return parse(nil, parts) -- not a valid state
			end
		end
		local state = {}
		for j = 1, size do
			state[j] = numbers[at] or 0
			at = at + 1
		end
		states[i] = state
	end
	return states
end

local function text(states)
	local words, last = {}, 0
	for _, state in ipairs(states) do
		for _, n in ipairs(state) do
			words[#words + 1] = decimal('%d', n)
			if n > 0 then
				last = #words
			end
		end
	end
	return table.concat(words, ' ', 1, last)
end

-- Sliding windows: by how much the counts must be moved, and c[i] after that.
local function age(part, s, start)
	return min(max(0, floor((start - (s[1] - s[1] % part.a)) / part.a)), part.b + 1)
end

local function count(part, s, i, moved)
	if i < moved then
		return 0
	end
	return min(s[2 + i - moved], part.ceiling)
end

local function look_bucket(part, s, v)
	local t, f, q = s[1], s[2], part.b
	if f >= q then
		f = q - 1
	end
	if now > t or now == t and f == 0 then
		return
	end
	if t - now > part.d then
		v.used, v.corrected = part.c, true
	else
		v.used = (t - now) * q + f
	end
end

-- The start of the fixed window of an instant. Of a calendar the starts of four windows are known: the one before that of
-- now, that one, and the two after it.
local function start_of(part, at)
	if part.k == FIXED then
		return at - at % part.a
	end
	return at >= part.d and part.d or at >= part.c and part.c or at >= part.b and part.b or at >= part.a and part.a or 0
end

-- The end of the fixed window that begins at start. One of a calendar whose end is not known keeps its state for a month.
local MONTH = 31 * 86400 * 1000000
local function end_of(part, start)
	if part.k == FIXED then
		return start + part.a
	end
	for _, next in ipairs({ part.a, part.b, part.c, part.d }) do
		if start < next then
			return next
		end
	end
	return start + MONTH
end

local function look_fixed(part, s, v)
	v.start = start_of(part, now)
	local start = s[1]
	if start < v.start then
		return
	end
	if start ~= v.start then
		start = start_of(part, start)
		if start - now > TOLERANCE then
			v.used, v.corrected = part.ceiling, true
			return
		end
		v.start = start
	end
	v.used = s[2]
end

local function look_sliding(part, s, v)
	local width, n = part.a, part.b
	v.start = now - now % width
	local first = s[1] - s[1] % width
	if first > v.start then
		if first - now > TOLERANCE then
			v.used, v.corrected = part.ceiling, true
			return
		end
		v.start = first
	end
	local moved = age(part, s, v.start)
	for i = 0, n - min(moved, n) - 1 do
		v.used = v.used + min(s[2 + i], part.ceiling)
	end
	local c = count(part, s, n, moved)
	if c > 0 then
		v.used = v.used + floor((c * (width - max(0, now - v.start)) + width - 1) / width)
	end
end

local function look_log(part, s, v)
	v.old = 0
	local n = s[1]
	if n > 0 and s[2 * n] - now > TOLERANCE then
		v.used, v.corrected = part.ceiling, true
		return
	end
	for i = 1, n do
		if now - s[2 * i] >= part.a then
			v.old = v.old + 1
		else
			v.used = v.used + s[2 * i + 1]
		end
	end
end

local look_by = { [BUCKET] = look_bucket, [FIXED] = look_fixed, [CALENDAR] = look_fixed, [SLIDING] = look_sliding, [LOG] = look_log }

local function look(part, s)
	local v = { used = 0, corrected = false }
	look_by[part.k](part, s, v)
	return v
end

local function fits(part, v, cost)
	if part.k == BUCKET then
		return cost <= part.ceiling and cost * part.a <= part.c - v.used
	end
	return cost <= part.ceiling - v.used
end

local function write_bucket(part, s, v, cost)
	v.used = v.used + cost * part.a
	local rest = v.used % part.b
	s[1], s[2] = now + (v.used - rest) / part.b, rest
end

local function write_fixed(_, s, v, cost)
	v.used = v.used + cost
	s[1], s[2] = v.start, v.used
end

local function write_sliding(part, s, v, cost)
	if v.corrected then
		for i = 2, part.b + 2 do
			s[i] = 0
		end
		s[2] = part.ceiling
	else
		local moved = age(part, s, v.start)
		for i = part.b, 0, -1 do
			s[2 + i] = count(part, s, i, moved)
		end
	end
	s[1] = v.start
	s[2] = s[2] + cost
end

local function write_log(part, s, v, cost)
	local n = s[1]
	if v.corrected then
		for i = #s, 4, -1 do
			s[i] = nil
		end
		s[1], s[2], s[3] = 1, now, part.ceiling
		return
	end
	if v.old > 0 then
		local gone = 2 * v.old
		for i = 2, 1 + 2 * n do
			s[i] = s[i + gone] -- nil beyond the end
		end
		n, v.old = n - v.old, 0
	end
	if cost > 0 then
		if n > 0 and s[2 * n] >= now then
			s[2 * n + 1] = s[2 * n + 1] + cost
		elseif n > 0 and s[2 * n + 1] == 0 then
			s[2 * n], s[2 * n + 1] = now, cost
		else
			n = n + 1
			s[2 * n], s[2 * n + 1] = now, cost
		end
	end
	s[1] = n
end

local write_by = { [BUCKET] = write_bucket, [FIXED] = write_fixed, [CALENDAR] = write_fixed, [SLIDING] = write_sliding, [LOG] = write_log }

local function write(part, s, v, cost)
	write_by[part.k](part, s, v, cost)
end

-- The instant from which on nothing counts, not even the position of the clock.
local function till(part, s)
	if part.k == BUCKET then
		return s[1] + (s[2] > 0 and 1 or 0)
	elseif part.k == FIXED or part.k == CALENDAR then
		local start = start_of(part, s[1])
		return s[2] > 0 and end_of(part, start) or start
	elseif part.k == LOG then
		return s[1] > 0 and s[2 * s[1]] + part.a or 0
	end
	local first = s[1] - s[1] % part.a
	for i = 0, part.b do
		if s[2 + i] > 0 then
			return first + (part.b + 1 - i) * part.a
		end
	end
	return first
end

-- The instant from which on charges up to the instant at give nothing back.
local function end_of_refunds(parts, at)
	local last = 0
	for _, part in ipairs(parts) do
		if part.k == BUCKET then
			last = max(last, at + part.d - TOLERANCE)
		elseif part.k == FIXED or part.k == CALENDAR then
			last = max(last, end_of(part, start_of(part, at)))
		elseif part.k == SLIDING then
			last = max(last, at - at % part.a + (part.b + 1) * part.a)
		else
			last = max(last, at + part.a)
		end
	end
	return last
end

local function refund(part, s, v, cost, at)
	if part.k == BUCKET then
		local back, since = min(cost, part.ceiling) * part.a, max(0, now - at)
		if since > floor(back / part.b) then
			return false
		end
		back = min(back - since * part.b, v.used)
		if back == 0 then
			return false
		end
		v.used = v.used - back
		write(part, s, v, 0)
		return true
	elseif part.k == FIXED or part.k == CALENDAR then
		if v.start ~= start_of(part, at) then
			return false
		end
		v.used = v.used - min(cost, v.used)
		write(part, s, v, 0)
		return true
	elseif part.k == SLIDING then
		local first = at - at % part.a
		local i = (v.start - first) / part.a
		if i < 0 or i > part.b then
			return false
		end
		local back = min(cost, count(part, s, i, age(part, s, v.start)))
		if back == 0 then
			return false
		end
		write(part, s, v, 0)
		s[2 + i] = s[2 + i] - back
		return true
	end
	if now - at >= part.a then
		return false
	end
	for i = 1, s[1] do
		if s[2 * i] == at and s[2 * i + 1] > 0 then
			s[2 * i + 1] = s[2 * i + 1] - min(cost, s[2 * i + 1])
			if s[2 * i + 1] == 0 and i < s[1] then
				table.remove(s, 2 * i + 1)
				table.remove(s, 2 * i)
				s[1] = s[1] - 1
			end
			return true
		end
	end
	return false
end

-- For every key: its state, the parts of the last decision, whether it changed.
local entries = {}

local function entry(k, question)
	question.parts = question.parts or parts_of(question)
	local e = entries[k]
	if not e then
		local value, reset = values[k], nil
		if value then
			value, reset = without_reset(value)
		end
		e = { states = parse(value, question.parts), changed = false, reset = reset }
		entries[k] = e
	end
	e.parts = question.parts
	return e
end

-- Charges every part or none. Corrections are made in either case.
local function decide(e, cost, charge)
	local views, all, corrected = {}, true, false
	for i, part in ipairs(e.parts) do
		local v = look(part, e.states[i])
		views[i] = v
		all = fits(part, v, cost) and all
		corrected = corrected or v.corrected
	end
	charge = charge and all
	if charge or corrected then
		for i, part in ipairs(e.parts) do
			if charge or views[i].corrected then
				write(part, e.states[i], views[i], charge and cost or 0)
			end
		end
		e.changed = true
	end
	return all
end

local function give_back(e, question)
	local cost, at = question[2], question[3]
	local forgotten = e.reset and at <= e.reset and e.reset - now <= TOLERANCE
	local nothing = forgotten or at - now > TOLERANCE
	for i, part in ipairs(e.parts) do
		local s = e.states[i]
		local v = look(part, s)
		if v.corrected then
			write(part, s, v, 0)
			e.changed = true
		elseif v.used > 0 and not nothing and refund(part, s, v, cost, at) then
			e.changed = true
		end
	end
end

local function copy(e)
	local states = {}
	for i, s in ipairs(e.states) do
		states[i] = { unpack(s) }
	end
	return { states = states, changed = e.changed }
end

local function ask(i)
	if asks == '' then
		return entry(i, questions[1]), questions[1]
	end
	local a, b, c, d = byte(asks, 4 * i - 3, 4 * i)
	local question = questions[c * 256 + d]
	return entry(a * 256 + b, question), question
end

local number = asks == '' and #KEYS or #asks / 4
if together then
	local before, denied = {}, nil
	for i = 1, number do
		local e, question = ask(i)
		before[i] = copy(e)
		if not decide(e, question[2], true) then
			denied = i
			break
		end
	end
	if denied then
		for i = denied - 1, 1, -1 do
			local e = ask(i)
			e.states, e.changed = before[i].states, before[i].changed
		end
		for i = 1, number do
			if i ~= denied then
				local e, question = ask(i)
				decide(e, question[2], false)
			end
		end
	end
else
	for i = 1, number do
		local e, question = ask(i)
		if question[1] == TAKE then
			decide(e, question[2], true)
		elseif question[1] == REFUND then
			give_back(e, question)
		elseif question[1] == RESET then
			for i, part in ipairs(e.parts) do
				if look(part, e.states[i]).used > 0 then -- else there is nothing to refund
					e.reset = now
				end
			end
			e.states, e.changed = parse(nil, e.parts), true
		end
	end
end

for k, e in pairs(entries) do
	if e.changed then
		local last = 0
		for i, part in ipairs(e.parts) do
			last = max(last, till(part, e.states[i]))
		end
		local value = text(e.states)
		local till = e.reset and end_of_refunds(e.parts, e.reset)
		if remembered(e.reset, till) then
			value, last = value .. decimal('!%d', e.reset), max(last, till)
		end
		keep(KEYS[k], value, last)
	end
end
return reply
