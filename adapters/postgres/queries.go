package postgres

import "strings"

// queries are the statements of a broker, with its schema.
type queries struct {
	append, begin, oldest, forward, backward, previous, heads, replace, head, behind string
	notify, notifyLive, keepLarge, large, lock, exists                               string
}

const columns = "off, tag, previous, frame, overflow, coalesce(key, ''), coalesce(except_, '')"

func queriesOf(schema string) queries {
	q := queries{
		append: "select at_epoch, at_off, at_tag from $schema.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		begin:  "select epoch, head, tag, oldest from $schema.begin_log($1, $2)",
		oldest: "select coalesce(min(off), $2) from $schema.messages where topic = $1 and off >= $3 and at > clock_timestamp() - $4::interval",

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
		head: "select epoch, head, tag from $schema.logs where topic = $1 and expires > clock_timestamp()",

		notify:     "select pg_notify($1, 'p' || $2)",
		notifyLive: "select pg_notify($1, 'm' || $2)",
		keepLarge: "with gone as (delete from $schema.large where at < clock_timestamp() - interval '1 minute'), " +
			"kept as (insert into $schema.large (body) values ($2) returning id) select pg_notify($1, 'r' || id) from kept",
		large: "select body from $schema.large where id = $1",

		lock:   "select pg_advisory_xact_lock(hashtext('wskit schema ' || $1))",
		exists: "select exists (select from pg_namespace where nspname = $1)",
	}
	for _, text := range []*string{
		&q.append, &q.begin, &q.oldest, &q.forward, &q.backward, &q.previous, &q.heads, &q.replace, &q.head, &q.keepLarge, &q.large,
	} {
		*text = strings.ReplaceAll(*text, "$schema", schema)
	}
	return q
}
