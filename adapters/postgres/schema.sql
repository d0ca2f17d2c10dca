-- The topics of a broker. $schema stands for the schema of Options. Applied once, in one transaction, under a lock.

-- A row for each log. An append locks it until its transaction ends: offsets have no holes, and the log has the order of
-- the commits. No other topic waits for it.
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
	body bytea not null,
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
	insert into $schema.logs (topic, epoch, keep, expires) values (t, $schema.random(62), begin_log.keep, ends) on conflict do nothing;
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

-- append adds a message to a log, in the transaction of the caller, and returns its position.
create function $schema.append(
	t bytea, frame_ bytea, overflow_ int2, key_ text, except__ text, id_ text, most int8, most_bytes int8, age interval, keep interval,
	out at_epoch int8, out at_off int8, out at_tag int8
) language plpgsql as $$
declare
	l $schema.logs;
	now_ timestamptz;
	total int8;
	first int8;
	until_ timestamptz;
begin
	l := $schema.begin_log(t, keep);
	at_epoch := l.epoch;
	if id_ is not null then
		select m.off, m.tag into at_off, at_tag from $schema.messages m where m.topic = t and m.id = id_;
		if not found then
			select i.off, i.tag into at_off, at_tag from $schema.ids i where i.topic = t and i.id = id_ and i.epoch = l.epoch;
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
	-- What is too much, or too old, goes; the last message stays.
	first := greatest(l.oldest, at_off - most + 1);
	until_ := now_ - age;
	select coalesce(min(m.off), at_off) into first from $schema.messages m
		where m.topic = t and m.off >= first and m.at > until_ and total - (m.bytes - length(m.frame)) <= most_bytes;
	if first > l.oldest then
		insert into $schema.ids (topic, id, epoch, off, tag, at)
			select m.topic, m.id, l.epoch, m.off, m.tag, m.at from $schema.messages m
				where m.topic = t and m.off < first and m.id is not null and m.at > now_ - $window
			on conflict do nothing;
		delete from $schema.messages m where m.topic = t and m.off < first;
		delete from $schema.ids i where i.topic = t and i.at <= now_ - $window;
	end if;
	update $schema.logs g set head = at_off, tag = at_tag, bytes = total, oldest = first, at = now_ where g.topic = t;
	perform pg_notify('$channel', 'l' || md5(t));
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
		convert_to('{"meta":{"topic":' || to_json(topic) || '},"type":' || to_json(event) || coalesce(',"payload":' || payload::text, '') || '}', 'UTF8'),
		0::int2, null, null, id, most, most_bytes, age, 2 * age);
end $$;
