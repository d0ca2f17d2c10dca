package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/pubsub"
)

// appending is a call of Append.
type appending struct {
	m    pubsub.Message
	h    pubsub.History
	id   string
	at   pubsub.Position
	done bool
}

// Append implements [pubsub.Log]. When it has returned nil, the message is committed: it outlives a crash of the
// server.
//
// Calls that come together share a transaction, of topics that no other transaction has locked; the others wait on
// their own. Its notifications are sent behind it: a commit with one holds up all others that have one while it is
// written to the disk. Those of a process that is killed in between are missing: routers find such messages by
// HistoryCheck.
func (b *Broker) Append(
	ctx context.Context, m pubsub.Message, h pubsub.History, id string,
) (at pubsub.Position, err error) {
	if err := checkAppend(m, h, id); err != nil {
		return at, err
	}
	if b.ctx.Err() != nil {
		return at, pubsub.ErrClosed
	}
	item := b.appends.Item()
	item.Value = appending{m: m, h: h, id: id}
	if err := b.appends.Do(ctx, item); err != nil {
		return at, err
	}
	done := item.Value.done
	at = item.Value.at
	item.Value = appending{}
	b.appends.Free(item)
	if done {
		return at, nil
	}
	err = b.call(ctx, "appending", func(ctx context.Context) error {
		var epoch, offset, tag int64
		if err := b.pool.QueryRow(ctx, b.sql.append, appendArgs(m, h, id)...).Scan(&epoch, &offset, &tag); err != nil {
			return err
		}
		at = position(epoch, offset, tag)
		return nil
	})
	return at, err
}

// appendArgs are the arguments of the function append.
func appendArgs(m pubsub.Message, h pubsub.History, id string) []any {
	return []any{
		[]byte(m.Topic), notNil(m.Frame), int16(m.Overflow), orNull(m.Key), orNull(m.Except), orNull(id),
		int64(h.Messages), int64(h.Bytes), interval(h.Age), interval(keepFor(h)),
	}
}

// columnsOf are the arguments of the function append_some.
type columnsOf struct {
	topics, frames     [][]byte
	overflows          []int16
	keys, excepts, ids []*string
	most, mostBytes    []int64
	ages, keeps        []string
}

// appendSome makes calls of Append in one transaction, as far as it waits for no other.
func (b *Broker) appendSome(ctx context.Context, items []*batch.Item[appending]) {
	var c columnsOf
	for _, item := range items {
		a := &item.Value
		c.topics, c.frames = append(c.topics, []byte(a.m.Topic)), append(c.frames, notNil(a.m.Frame))
		c.overflows, c.keys = append(c.overflows, int16(a.m.Overflow)), append(c.keys, orNull(a.m.Key))
		c.excepts, c.ids = append(c.excepts, orNull(a.m.Except)), append(c.ids, orNull(a.id))
		c.most, c.mostBytes = append(c.most, int64(a.h.Messages)), append(c.mostBytes, int64(a.h.Bytes))
		c.ages, c.keeps = append(c.ages, interval(a.h.Age)), append(c.keeps, interval(keepFor(a.h)))
	}
	err := b.call(ctx, "appending", func(ctx context.Context) error {
		rows, err := b.pool.Query(
			ctx, b.sql.appendSome, c.topics, c.frames, c.overflows, c.keys, c.excepts, c.ids, c.most, c.mostBytes,
			c.ages, c.keeps,
		)
		if err != nil {
			return err
		}
		var i int
		var epoch, offset, tag int64
		_, err = pgx.ForEachRow(rows, []any{&i, &epoch, &offset, &tag}, func() error {
			a := &items[i-1].Value
			a.at, a.done = position(epoch, offset, tag), true
			return nil
		})
		return err
	})
	for _, item := range items {
		item.Err = err
	}
	if err == nil {
		b.announce(items)
	}
}

// announce has notifications sent.
func (b *Broker) announce(items []*batch.Item[appending]) {
	for _, item := range items {
		if item.Value.done {
			b.unsent.add(digest(item.Value.m.Topic))
		}
	}
}

// notificationsAtOnce is how many notifications are sent by one statement.
const notificationsAtOnce = 1000

// sendNotifications sends notifications of what was appended, and the last ones when the database is closed.
func (b *Broker) sendNotifications() {
	workOff(b.database, b.unsent, notificationsAtOnce, b.notify, unreported)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), b.o.Timeout)
	defer cancel()
	_ = b.notify(ctx, b.unsent.take()) // or routers find the messages by HistoryCheck
}

func (b *Broker) notify(ctx context.Context, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	_, err := b.pool.Exec(ctx, b.sql.notifyLogs, b.channel(), topics)
	return err
}
