package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/pubsub"
)

// headOf is the log of a topic as it is; zero if there is none.
func (b *Broker) headOf(ctx context.Context, name string) (h head, err error) {
	err = b.pool.QueryRow(ctx, b.sql.head, []byte(name)).Scan(&h.epoch, &h.off, &h.tag)
	if errors.Is(err, pgx.ErrNoRows) {
		return head{}, nil
	}
	return h, err
}

const (
	// readAtOnce is how many messages of a topic are read at a time, logsAtOnce of how many topics.
	readAtOnce = 500
	logsAtOnce = 100
)

// behind is what was read of a log: its head, and messages behind the last one that was delivered.
type behind struct {
	now      head
	messages []pubsub.Message
}

// readSome delivers the messages of logs behind the last ones that were.
func (b *Broker) readSome(ctx context.Context, topics []*topic) error {
	names, epochs, offsets := make([][]byte, len(topics)), make([]int64, len(topics)), make([]int64, len(topics))
	b.mu.Lock()
	for i, t := range topics {
		names[i], epochs[i], offsets[i] = []byte(t.name), t.at.epoch, t.at.off
	}
	b.mu.Unlock()
	rows, err := b.pool.Query(ctx, b.sql.behind, names, epochs, offsets, readAtOnce)
	if err != nil {
		return err
	}
	all := make([]behind, len(topics))
	var i int
	var now head
	var r row
	_, err = pgx.ForEachRow(rows, append([]any{&i, &now.epoch, &now.off, &now.tag}, r.fields()...), func() error {
		all[i-1].now = now
		if r.offset == nil { // none
			return nil
		}
		m, err := r.message(topics[i-1].name, now.epoch)
		all[i-1].messages = append(all[i-1].messages, m)
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range topics {
		b.deliver(t, all[i])
	}
	return nil
}

// deliver gives messages of a log to the subscriptions. What is missing is reported. b.mu is held.
func (b *Broker) deliver(t *topic, r behind) {
	at := t.at
	if r.now == at {
		return
	}
	if r.now.epoch != at.epoch {
		at = head{epoch: r.now.epoch} // a log that was begun since, or has ended
	}
	for _, m := range r.messages {
		if int64(m.Position.Offset) != at.off+1 || at.off > 0 && int64(m.Previous) != at.tag {
			b.push(t, pubsub.Message{Topic: t.name, Lost: true})
		}
		b.push(t, m)
		at = head{epoch: r.now.epoch, off: int64(m.Position.Offset), tag: int64(m.Position.Tag)}
	}
	switch {
	case len(r.messages) == readAtOnce:
		b.dirty.add(t) // there may be more
	case at.off != r.now.off || at.tag != r.now.tag:
		b.push(t, pubsub.Message{Topic: t.name, Lost: true})
		at = r.now
	}
	t.at = at
}
