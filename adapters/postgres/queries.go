package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// queries are the statements of the parts, with the schema.
type queries struct {
	schema string

	append, appendSome, begin, kept, oldest, forward, backward, previous, heads, replace, head, behind string // of logs
	notify, notifyLogs, notifyLive, keepLarge, large                                                   string // of messages that are not kept
	register, unregister, receivers, sweepReceivers                                                    string // of receivers
	states, swap, swapAll, sweepStates                                                                 string // of limits
	acquire, renew, release, held, sweepLeases                                                         string // of leases
	join, leave, members, changes, beat, own, sweepMembers, end                                        string // of presence
	answer, sweepAnswers                                                                               string // of idempotency
	lock, exists, secret, check                                                                        string
}

const columns = "off, tag, previous, frame, overflow, coalesce(key, ''), coalesce(except_, '')"

// now is the clock of the server in microseconds, or the one that a test gives as $1.
const now = "coalesce($1::int8, (extract(epoch from clock_timestamp()) * 1000000)::int8)"

// sessions begins a statement with those of processes that listen.
const sessions = "with held as materialized (select objid::int8 as session from pg_locks where locktype = 'advisory' and objsubid = 2 " +
	"and classid = (hashtext('wskit ' || $1)::int8 & 4294967295)::oid " +
	"and database = (select oid from pg_database where datname = current_database())) "

func queriesOf(schema string) queries {
	q := queries{
		schema: schema,

		append:     "select at_epoch, at_off, at_tag from $schema.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, true)",
		appendSome: "select i, at_epoch, at_off, at_tag from $schema.append_some($1, $2, $3, $4, $5, $6, $7, $8, $9::text[]::interval[], $10::text[]::interval[])",
		begin:      "select $schema.begin_log($1, $2)",
		kept:       "select epoch, head, tag, oldest from $schema.logs where topic = $1 and expires > clock_timestamp() + 1.5 * $2::interval",
		oldest:     "select coalesce(min(off), $2) from $schema.messages where topic = $1 and off >= $3 and at > clock_timestamp() - $4::interval",

		forward:  "select " + columns + " from $schema.messages where topic = $1 and off between $2 and $3 order by off limit $4",
		backward: "select " + columns + " from $schema.messages where topic = $1 and off between $2 and $3 order by off desc limit $4",
		previous: "select previous from $schema.messages where topic = $1 and off = $2",

		// What is looked at is kept for as long again.
		heads: "with asked as (select topic, i from unnest($1::bytea[]) with ordinality as a (topic, i)), " +
			"kept as (update $schema.logs l set expires = greatest(l.expires, clock_timestamp() + 2 * l.keep) " +
			"from asked where l.topic = asked.topic and l.expires > clock_timestamp() returning l.topic, l.epoch, l.head, l.tag) " +
			"select asked.i, kept.epoch, kept.head, kept.tag from asked join kept using (topic)",
		replace: "update $schema.messages m set frame = $5 from $schema.logs l where l.topic = m.topic and m.topic = $1 and " +
			"l.epoch = $2 and m.off = $3 and m.tag = $4 and m.off >= l.oldest and l.expires > clock_timestamp()",
		// What is behind the messages that a process has, of several topics.
		behind: "select k.i, l.epoch, l.head, l.tag, m.off, m.tag, m.previous, m.frame, m.overflow, coalesce(m.key, ''), coalesce(m.except_, '') " +
			"from unnest($1::bytea[], $2::int8[], $3::int8[]) with ordinality as k (topic, epoch, off, i) " +
			"join $schema.logs l on l.topic = k.topic and l.expires > clock_timestamp() " +
			"left join lateral (select * from $schema.messages m where m.topic = l.topic and m.off >= l.oldest and " +
			"m.off > case when l.epoch = k.epoch then k.off else 0 end order by m.off limit $4) m on true order by k.i, m.off",
		head: "select epoch, head, tag from $schema.logs where topic = $1 and expires > clock_timestamp()",

		notifyLogs: "select pg_notify($1, 'l' || topic) from unnest($2::text[]) as topic",
		notify:     "select pg_notify($1, 'p' || $2)",
		notifyLive: "select pg_notify($1, 'm' || $2::text)",
		keepLarge: "with gone as (delete from $schema.large where at < clock_timestamp() - interval '1 minute'), " +
			"kept as (insert into $schema.large (body) values ($2::text) returning id) select pg_notify($1, 'r' || id) from kept",
		large: "select body from $schema.large where id = $1",

		register: "with r as (insert into $schema.receivers as r (topic, session, registration) " +
			"select topic, $3, registration from unnest($1::text[], $2::int8[]) as n (topic, registration) " +
			"on conflict (topic, session) do update set registration = greatest(r.registration, excluded.registration)) " +
			"select pg_notify($4, 'p' || $5)",
		unregister: "delete from $schema.receivers r using unnest($1::text[], $2::int8[]) as n (topic, registration) " +
			"where r.topic = n.topic and r.registration = n.registration",
		receivers:      sessions + "select count(*) from $schema.receivers where topic = $2 and session in (select session from held)",
		sweepReceivers: sessions + "delete from $schema.receivers where session not in (select session from held)",

		states: "select " + now + ", array(select coalesce(s.state, '') from unnest($2::bytea[]) with ordinality as k (key, i) " +
			"left join $schema.states s on s.key = k.key order by k.i)",
		swap: "select key from $schema.swap($1, $2, $3, $4, false) as key", swapAll: "select key from $schema.swap($1, $2, $3, $4, true) as key",
		sweepStates: "delete from $schema.states where key in (select key from $schema.states where expires < clock_timestamp() limit 10000)",

		acquire: "select now_, held, first from $schema.acquire($1, $2, $3, $4, $5, $6)",
		renew: "insert into $schema.leases as l (key, id, until) select key, id, " + now + " + $4 from unnest($2::bytea[], $3::bytea[]) as n (key, id) " +
			"order by key, id on conflict (key, id) do update set until = excluded.until",
		release: "delete from $schema.leases where (key, id) in (select key, id from unnest($1::bytea[], $2::bytea[]) as n (key, id))",
		held:    "select count(*), coalesce((array_agg(id))[1:$3], '{}') from $schema.leases where key = $2 and until > " + now,
		sweepLeases: "delete from $schema.leases where ctid in (select ctid from $schema.leases " +
			"where until < (extract(epoch from clock_timestamp()) * 1000000)::int8 - $1 limit 10000)",

		join:  "select $schema.join_($1, $2, $3, $4, $5, $6)",
		leave: "select $schema.leave($1, $2, $3, $4)",
		members: "select m.id, m.user_, m.data, m.process from $schema.members m join $schema.processes p on p.id = m.process " +
			"where m.topic = $1 and not m.gone and p.until > clock_timestamp() limit $2",
		changes: "select k.i, coalesce(p.epoch, 0), coalesce(p.version, 0), f.since, m.id, m.user_, m.data, m.gone " +
			"from unnest($1::bytea[], $2::int8[], $3::int8[]) with ordinality as k (topic, epoch, version, i) " +
			"left join $schema.places p on p.topic = k.topic " +
			"cross join lateral (select coalesce(p.epoch = k.epoch and k.version >= p.purged, false)) f (since) " +
			"left join lateral (select * from $schema.members m where m.topic = p.topic and " +
			"m.version > case when f.since then k.version else 0 end and (f.since or not m.gone) " +
			"limit case when not f.since then $4::int8 end) m on true order by k.i",
		beat:         "select $schema.beat($1, $2)",
		own:          "select topic, id, stamp from $schema.members where process = $1 and not gone",
		sweepMembers: "select $schema.sweep_members()",
		end:          "update $schema.processes set until = '-infinity' where id = $1",

		answer: "select word, kept from $schema.answer($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		sweepAnswers: "delete from $schema.answers where (subject, key) in " +
			"(select subject, key from $schema.answers where expires < clock_timestamp() limit 10000)",

		lock:   "select pg_advisory_xact_lock(hashtext('wskit schema ' || $1))",
		exists: "select exists (select from pg_namespace where nspname = $1)",
		secret: "insert into $schema.secrets as s (name, value) values ($1, $2) " +
			"on conflict (name) do update set name = s.name returning s.value",
		check: "insert into $schema.checks (one) values (true) on conflict (one) do update set at = clock_timestamp()",
	}
	for _, text := range []*string{
		&q.append, &q.appendSome, &q.begin, &q.kept, &q.oldest, &q.forward, &q.backward, &q.previous, &q.heads, &q.replace, &q.head, &q.behind, &q.keepLarge, &q.large,
		&q.register, &q.unregister, &q.receivers, &q.sweepReceivers, &q.states, &q.swap, &q.swapAll, &q.sweepStates,
		&q.acquire, &q.renew, &q.release, &q.held, &q.sweepLeases, &q.join, &q.leave, &q.members, &q.changes, &q.beat, &q.own,
		&q.sweepMembers, &q.end, &q.answer, &q.sweepAnswers, &q.secret, &q.check,
	} {
		*text = strings.ReplaceAll(*text, "$schema", schema)
	}
	return q
}

// session begins a connection: what is forgotten in it ends.
func (q *queries) session(timeout time.Duration) string {
	return fmt.Sprintf(
		"set statement_timeout = %d; set idle_in_transaction_session_timeout = %[1]d", max(1, timeout.Milliseconds()),
	)
}

// listen begins the connection that listens. The server gives it up 15 s after its process has gone without a word.
func (q *queries) listen(channel string, session int32) string {
	return fmt.Sprintf(
		"set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 2; listen %s; "+
			"select pg_advisory_lock(hashtext('wskit %s'), %d)",
		pgx.Identifier{channel}.Sanitize(),
		q.schema,
		session,
	)
}
