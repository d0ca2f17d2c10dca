-- What a router shares. $schema stands for the schema of Options. Applied once, in one transaction, under a lock.
--
-- Unlogged tables are empty after a crash of the server: their processes write them anew.

-- A row for each log. An append locks it until its transaction ends: offsets have no holes, and the log has the order
-- of the commits. No other topic waits for it.
create table $schema.logs (
	topic   bytea primary key,
	epoch   int8 not null,                 -- random, not 0
	head    int8 not null default 0,       -- the offset of the last message
	tag     int8 not null default 0,       -- its tag
	bytes   int8 not null default 0,       -- of all frames until now
	oldest  int8 not null default 1,       -- the offset of the oldest message that is kept
	at      timestamptz not null default '-infinity', -- of the last message
	keep    interval not null,             -- for how long it is kept without being used, at least
	expires timestamptz not null           -- the log ends then
);

create table $schema.messages (
	topic    bytea not null,
	off      int8 not null,
	tag      int8 not null,
	previous int8 not null,                -- the tag of the message before
	bytes    int8 not null,                -- of all frames until this one, with it
	at       timestamptz not null,
	frame    bytea not null,
	overflow int2 not null default 0,
	key      text,
	except_  text,
	id       text,                         -- of the call of append
	primary key (topic, off)
);
create unique index on $schema.messages (topic, id) where id is not null;

-- The ids of messages that are not kept any more, for as long as a call may be repeated.
create table $schema.ids (
	topic bytea not null,
	id    text not null,
	epoch int8 not null,
	off   int8 not null,
	tag   int8 not null,
	at    timestamptz not null,
	primary key (topic, id)
);

-- Messages that are not kept and do not fit a notification.
create unlogged table $schema.large (
	id   int8 generated always as identity primary key,
	body text not null,
	at   timestamptz not null default clock_timestamp()
);

-- A random number for an epoch or a tag, not 0.
create function $schema.random(bits int) returns int8 language sql volatile as $$
	select 1 + floor(random() * ((1::numeric * 2 ^ bits) - 1))::int8
$$;

-- The row of a log, locked. It is begun if there is none, and anew if its time is over.
create function $schema.begin_log(t bytea, keep interval) returns $schema.logs language plpgsql as $$
declare
	l $schema.logs;
	ends timestamptz := clock_timestamp() + 2 * begin_log.keep;
begin
	insert into $schema.logs (topic, epoch, keep, expires)
		values (t, $schema.random(62), begin_log.keep, ends) on conflict do nothing;
	select * into l from $schema.logs where topic = t for update;
	if l.expires < clock_timestamp() then
		delete from $schema.messages where topic = t;
		delete from $schema.ids where topic = t;
		update $schema.logs set epoch = $schema.random(62), head = 0, tag = 0, bytes = 0, oldest = 1, at = '-infinity',
			keep = begin_log.keep, expires = ends where topic = t returning * into l;
	elsif l.expires < ends - begin_log.keep / 2 then
		update $schema.logs set keep = begin_log.keep, expires = ends where topic = t;
	end if;
	return l;
end $$;

-- append adds a message to a log, in the transaction of the caller, and returns its position. With notify_ its commit
-- is a notification.
create function $schema.append(
	t bytea, frame_ bytea, overflow_ int2, key_ text, except__ text, id_ text, most int8, most_bytes int8, age interval,
	keep interval, notify_ bool, out at_epoch int8, out at_off int8, out at_tag int8
) language plpgsql as $$
declare
	l $schema.logs;
	now_ timestamptz;
	total int8;
	first int8;
	until_ timestamptz;
begin
	select * into l from $schema.logs where topic = t and expires > clock_timestamp() + 1.5 * append.keep for update;
	if not found then
		l := $schema.begin_log(t, append.keep);
	end if;
	at_epoch := l.epoch;
	if id_ is not null then
		select m.off, m.tag into at_off, at_tag from $schema.messages m where m.topic = t and m.id = id_;
		if not found then
			select i.off, i.tag into at_off, at_tag from $schema.ids i
				where i.topic = t and i.id = id_ and i.epoch = l.epoch;
		end if;
		if found then
			return;
		end if;
	end if;
	now_ := greatest(l.at, clock_timestamp());
	at_off := l.head + 1;
	at_tag := $schema.random(32);
	total := l.bytes + length(frame_);
	insert into $schema.messages (topic, off, tag, previous, bytes, at, frame, overflow, key, except_, id)
		values (t, at_off, at_tag, l.tag, total, now_, frame_, overflow_, key_, except__, id_);
	-- What is too much, or too old, is not read any more, and deleted by every 32nd; the last message stays.
	first := greatest(l.oldest, at_off - most + 1);
	until_ := now_ - age;
	select coalesce(min(m.off), at_off) into first from $schema.messages m
		where m.topic = t and m.off >= first and m.at > until_ and total - (m.bytes - length(m.frame)) <= most_bytes;
	if first / 32 > l.oldest / 32 then
		insert into $schema.ids (topic, id, epoch, off, tag, at)
			select m.topic, m.id, l.epoch, m.off, m.tag, m.at from $schema.messages m
				where m.topic = t and m.off < first and m.id is not null and m.at > now_ - $window
			on conflict do nothing;
		delete from $schema.messages m where m.topic = t and m.off < first;
		delete from $schema.ids i where i.topic = t and i.at <= now_ - $window;
	end if;
	update $schema.logs g set head = at_off, tag = at_tag, bytes = total, oldest = first, at = now_ where g.topic = t;
	if notify_ then
		perform pg_notify('$channel', 'l' || md5(t));
	end if;
end $$;

-- append_some adds messages to logs that no other transaction has locked, and returns which it has added. So it waits
-- for nothing. The caller sends the notifications.
create function $schema.append_some(
	topics bytea[], frames bytea[], overflows int2[], keys text[], excepts text[], ids text[], most int8[],
	most_bytes int8[], ages interval[], keeps interval[]
) returns table (i int4, at_epoch int8, at_off int8, at_tag int8) language plpgsql as $$
declare
	locked bytea[];
begin
	select array_agg(l.topic) into locked from (
		select topic from $schema.logs where topic = any (topics) and expires > clock_timestamp() for update skip locked) l;
	for n in 1 .. cardinality(topics) loop
		if topics[n] = any (locked) then
			return query select n, a.* from $schema.append(topics[n], frames[n], overflows[n], keys[n], excepts[n], ids[n],
				most[n], most_bytes[n], ages[n], keeps[n], false) a;
		end if;
	end loop;
end $$;

-- publish appends an event as a router sends it: for triggers and programs in any language, in their transaction. The
-- history is given as router.HistoryOptions have it for the topic.
create function $schema.publish(
	topic text, event text, payload jsonb default null, id text default null,
	most int8 default 1000, most_bytes int8 default 1048576, age interval default '1 hour'
) returns void language plpgsql as $$
begin
	if event = '' or event like '$ws:%' or topic = '' or topic like '$ws:%' then
		raise exception 'wskit: the topic % or the event % is reserved or empty', topic, event;
	end if;
	perform $schema.append(
		convert_to(topic, 'UTF8'),
		convert_to('{"meta":{"topic":' || to_json(topic) || '},"type":' || to_json(event) ||
			coalesce(',"payload":' || payload::text, '') || '}', 'UTF8'),
		0::int2, null, null, id, most, most_bytes, age, 2 * age, true);
end $$;

-- Which topics a process is subscribed to, by the md5 of the name. It counts while the session holds an advisory lock.
create unlogged table $schema.receivers (
	topic        text not null,
	session      int4 not null,
	registration int8 not null,
	primary key (topic, session)
);

create table $schema.secrets (name text primary key, value bytea not null);
create table $schema.checks (one bool primary key, at timestamptz not null default clock_timestamp());

-- The states of limits, as text: the numbers of a policy, and behind a '!' the instant of the last reset and its end. A
-- row that is not there has the state ''. The last second may be lost in a crash of the server.
create table $schema.states (
	key     bytea primary key,
	state   text not null,
	before  text not null,                 -- of a call: the state that it has read. It has no meaning in a row
	expires timestamptz not null           -- the state has no meaning then. Rounded up, so that most writes leave it as it is
) with (fillfactor = 70);
create index on $schema.states (expires);

-- swap writes states that are still as they were read, and returns their keys; with together all of them or none. Keys
-- come sorted, so calls never wait for one another in a circle.
create function $schema.swap(keys bytea[], befores text[], afters text[], lasts int8[], together bool)
	returns setof bytea language plpgsql as $$
declare
	won bytea[];
begin
	with written as (
		insert into $schema.states as s (key, state, before, expires)
			select n.key, n.after, n.before,
				date_bin('10 minutes', clock_timestamp() + n.lasts * interval '1 microsecond', 'epoch') + interval '10 minutes'
			from unnest(keys, befores, afters, lasts) as n (key, before, after, lasts)
			on conflict (key) do update set state = excluded.state, expires = excluded.expires where s.state = excluded.before
			returning key)
	select array_agg(key) into won from written;
	if together and cardinality(won) is distinct from cardinality(keys) then
		raise exception using errcode = 'WSKIT';
	end if;
	return query select unnest(won);
exception when sqlstate 'WSKIT' then
	return;
end $$;

-- Leases by the instants at which they end, in microseconds.
create unlogged table $schema.leases (
	key   bytea not null,
	id    bytea not null,
	until int8 not null,
	primary key (key, id)
) with (fillfactor = 50);

-- acquire takes a lease if there are fewer than most others. It returns the instant, the number of others, and when the
-- first of all ends, or 0. A lease is kept for longer than it lasts, because the clock may be set back by as much. One
-- that ends later than is possible, an hour or ten leases from now, does not count.
create function $schema.acquire(
	at int8, k bytea, i bytea, lease int8, most int8, longer int8, out now_ int8, out held int8, out first int8
) language plpgsql as $$
begin
	perform pg_advisory_xact_lock(('x' || md5(k))::bit(64)::int8);
	now_ := coalesce(at, (extract(epoch from clock_timestamp()) * 1000000)::int8);
	delete from $schema.leases where key = k and (until <= now_ - longer or until > now_ + greatest(3600000000, 10 * lease));
	select count(*), min(until) into held, first from $schema.leases where key = k and until > now_ and id <> i;
	if held < most then
		insert into $schema.leases as l (key, id, until) values (k, i, now_ + lease)
			on conflict (key, id) do update set until = excluded.until;
		first := least(first, now_ + lease);
	else
		first := least(first, (select until from $schema.leases where key = k and id = i and until > now_));
	end if;
	first := coalesce(first, 0);
end $$;

-- Processes with members, and until when they count without another word.
create unlogged table $schema.processes (id int8 primary key, until timestamptz not null);

-- A topic with members. A change locks it until its transaction ends: versions have the order of the commits.
create unlogged table $schema.places (
	topic   bytea primary key,
	epoch   int8 not null,                 -- random, not 0
	version int8 not null default 0,       -- of the last change
	purged  int8 not null default 0        -- of the last one that is not kept any more
);

-- A member, or for ten minutes one that has left.
create unlogged table $schema.members (
	topic   bytea not null,
	id      bytea not null,
	version int8 not null,                 -- of its last change
	process int8 not null,
	stamp   int8 not null,                 -- of the call of join
	user_   bytea not null,
	data    bytea not null,
	gone    bool not null default false,
	at      timestamptz not null default clock_timestamp(),
	primary key (topic, id)
);
create index on $schema.members (topic, version);
create index on $schema.members (process);

-- changed is the version of a change of a topic.
create function $schema.changed(t bytea) returns int8 language plpgsql as $$
declare
	v int8;
begin
	insert into $schema.places as p (topic, epoch, version) values (t, $schema.random(62), 1)
		on conflict (topic) do update set version = p.version + 1 returning version into v;
	perform pg_notify('$channel', 'w' || md5(t));
	return v;
end $$;

-- join_ adds a member, or replaces it. It returns false, and does nothing, if the process does not count any more.
create function $schema.join_(p int8, t bytea, i bytea, u bytea, d bytea, s int8) returns bool language plpgsql as $$
declare
	v int8;
begin
	perform from $schema.processes where id = p and until > clock_timestamp() for key share;
	if not found then
		return false;
	end if;
	v := $schema.changed(t);
	insert into $schema.members as m (topic, id, version, process, stamp, user_, data) values (t, i, v, p, s, u, d)
		on conflict (topic, id) do update set version = v, process = p, stamp = s, user_ = u, data = d, gone = false;
	return true;
end $$;

-- leave removes members of a process that have not joined anew since, topic by topic in their order.
create function $schema.leave(p int8, topics bytea[], ids bytea[], stamps int8[]) returns void language plpgsql as $$
declare
	t bytea;
begin
	for t in select distinct n.topic from unnest(topics) as n (topic) order by 1 loop
		perform from $schema.places where topic = t for update;
		update $schema.members m set gone = true, user_ = '', data = '', at = clock_timestamp(),
			version = (select version + 1 from $schema.places where topic = t)
			from unnest(topics, ids, stamps) as n (topic, id, stamp)
			where n.topic = t and m.topic = t and m.id = n.id and m.process = p and not m.gone
			and m.stamp = n.stamp;
		if found then
			perform $schema.changed(t);
		end if;
	end loop;
end $$;

-- beat has a process count for longer. It returns how many members it has, or null if it did not count any more.
create function $schema.beat(p int8, lasts int8) returns int8 language plpgsql as $$
begin
	update $schema.processes set until = clock_timestamp() + lasts * interval '1 microsecond'
		where id = p and until > clock_timestamp();
	if found then
		return (select count(*) from $schema.members where process = p and not gone);
	end if;
	insert into $schema.processes as r (id, until) values (p, clock_timestamp() + lasts * interval '1 microsecond')
		on conflict (id) do update set until = excluded.until;
	return null;
end $$;

-- sweep_members removes the members of processes that do not count, and what is not needed any more.
create function $schema.sweep_members() returns void language plpgsql as $$
declare
	p int8;
	t bytea;
	v int8;
begin
	for p in select id from $schema.processes where until < clock_timestamp() order by id for update skip locked loop
		perform $schema.leave(p, array_agg(topic), array_agg(id), array_agg(stamp)) from $schema.members
			where process = p and not gone having count(*) > 0;
		delete from $schema.processes where id = p;
	end loop;
	for t, v in select topic, max(version) from $schema.members
		where gone and at < clock_timestamp() - interval '10 minutes' group by topic order by topic limit 1000 loop
		perform from $schema.places where topic = t for update;
		delete from $schema.members
			where topic = t and gone and version <= v and at < clock_timestamp() - interval '10 minutes';
		update $schema.places set purged = greatest(purged, v) where topic = t;
		delete from $schema.places p where p.topic = t and not exists (select from $schema.members m where m.topic = t);
	end loop;
end $$;

-- The answers of messages with an idempotency key.
create table $schema.answers (
	subject   bytea not null,
	key       bytea not null,
	digest    bytea not null,
	execution bytea not null,
	answer    bytea,                       -- null while the message is handled
	expires   timestamptz not null,
	primary key (subject, key)
);
create index on $schema.answers (expires);

-- answer begins, renews, finishes or releases a claim. It returns a word, and for 'answered' the answer.
create function $schema.answer(
	operation text, s bytea, k bytea, d bytea, e bytea, lasts int8, a bytea, most int8, most_bytes int8,
	out word text, out kept bytea
) language plpgsql as $$
declare
	r $schema.answers;
	ends timestamptz := clock_timestamp() + lasts * interval '1 microsecond';
begin
	perform pg_advisory_xact_lock(('x' || md5('answers'::bytea || s))::bit(64)::int8);
	delete from $schema.answers where subject = s and expires <= clock_timestamp();
	select * into r from $schema.answers where subject = s and key = k;
	if operation = 'release' then
		delete from $schema.answers where subject = s and key = k and execution = e and answer is null;
		word := 'done';
		return;
	end if;
	if r.key is not null then
		if operation = 'begin' then
			word := case when r.digest <> d then 'mismatch' when r.answer is not null then 'answered'
				when r.execution <> e then 'running' else 'claimed' end;
			kept := case when word = 'answered' then r.answer end;
		elsif r.execution <> e or operation = 'renew' and r.answer is not null then
			word := 'lost';
		elsif r.answer is not null then
			word := 'done'; -- by the same call before
			return;
		end if;
		if word in ('mismatch', 'answered', 'running', 'lost') then
			return;
		end if;
	elsif (select count(*) from $schema.answers where subject = s) >= most then
		word := 'full';
		return;
	end if;
	if length(a) > 1 and
		(select coalesce(sum(length(answer)), 0) + length(a) from $schema.answers where subject = s) > most_bytes then
		word := 'full';
		return;
	end if;
	insert into $schema.answers as n (subject, key, digest, execution, answer, expires) values (s, k, d, e, a, ends)
		on conflict (subject, key) do update set answer = excluded.answer, expires = excluded.expires;
	word := case operation when 'begin' then 'claimed' else 'done' end;
end $$;
