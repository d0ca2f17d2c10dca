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

// look has the log of a topic read. b.mu is held.
func (b *Broker) look(t *topic) {
	b.dirty[t] = true
	select {
	case b.reading <- struct{}{}:
	default:
	}
}

// readAtOnce is how many messages of a topic are read at a time.
const readAtOnce = 500

// read delivers what is in the logs of dirty topics.
func (b *Broker) read() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.reading:
		}
		b.mu.Lock()
		dirty := b.dirty
		b.dirty = make(map[*topic]bool)
		b.mu.Unlock()
		for t := range dirty {
			if err := b.readTopic(t); err != nil {
				b.mu.Lock()
				b.look(t)
				b.mu.Unlock()
				b.pause()
			}
		}
	}
}

// readTopic delivers the messages of a log behind the last one that was.
func (b *Broker) readTopic(t *topic) error {
	ctx, cancel := context.WithTimeout(b.ctx, b.o.Timeout)
	defer cancel()
	for {
		b.mu.Lock()
		at := t.at
		b.mu.Unlock()
		now, err := b.headOf(ctx, t.name)
		if err != nil {
			return err
		}
		if now.epoch == at.epoch && now.off == at.off && now.tag == at.tag {
			return nil
		}
		if now.epoch != at.epoch {
			at = head{epoch: now.epoch} // a log that was begun since
		}
		rows, err := b.pool.Query(ctx, b.sql.forward, []byte(t.name), at.off+1, now.off, readAtOnce)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pubsub.Message, error) { return scan(row, t.name, now.epoch) })
		if err != nil {
			return err
		}
		b.deliver(t, at, now, all)
		if len(all) < readAtOnce {
			return nil
		}
	}
}

// deliver gives messages of a log to the subscriptions, behind the one at a place. What is missing is reported.
func (b *Broker) deliver(t *topic, at, now head, all []pubsub.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range all {
		if int64(m.Position.Offset) != at.off+1 || at.off > 0 && int64(m.Previous) != at.tag {
			b.push(t, pubsub.Message{Topic: t.name, Lost: true})
		}
		b.push(t, m)
		at = head{epoch: now.epoch, off: int64(m.Position.Offset), tag: int64(m.Position.Tag)}
	}
	if len(all) < readAtOnce && at.off != now.off {
		b.push(t, pubsub.Message{Topic: t.name, Lost: true})
		at = now
	}
	t.at = at
}
