package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/pubsub"
)

// A process registers each topic that it subscribes to, under the session of its connection that listens. A
// registration counts while that session holds its lock: those of a process that was killed, or that lost the
// connection, do not.

// PublishCounted implements [pubsub.ReceiverCounter].
func (b *Broker) PublishCounted(ctx context.Context, m pubsub.Message) (receivers int, err error) {
	if err := checkTopic(m.Topic); err != nil {
		return 0, err
	}
	topic := digest(m.Topic)
	body, err := json.Marshal(live{topic, m.Frame, m.Overflow, []byte(m.Key), []byte(m.Except)})
	if err != nil {
		return 0, err
	}
	err = b.call(ctx, "publishing", func(ctx context.Context) error {
		var batch pgx.Batch // one transaction, and one round trip
		batch.Queue(b.statement(body), b.channel(), string(body))
		batch.Queue(b.sql.receivers, b.o.Schema, topic).
			QueryRow(func(row pgx.Row) error { return row.Scan(&receivers) })
		return b.pool.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return 0, err
	}
	return receivers, nil
}

// registerOne registers a topic, and has a notification sent for a fence. It returns under which session.
func (b *Broker) registerOne(
	ctx context.Context, topic string, registration int64, fence string,
) (session int32, err error) {
	session = b.sessionNow()
	_, err = b.pool.Exec(ctx, b.sql.register, []string{topic}, []int64{registration}, session, b.channel(), fence)
	return session, err
}

// register registers all topics under a new session. One that is subscribed to at the same time finds the session
// changed.
func (b *Broker) register(ctx context.Context, session int32) error {
	b.mu.Lock()
	var topics []string
	var registrations []int64
	for key, t := range b.topics {
		topics, registrations = append(topics, key), append(registrations, t.registration)
	}
	b.mu.Unlock()
	_, err := b.pool.Exec(ctx, b.sql.register, topics, registrations, session, b.channel(), "")
	return err
}

// leave has the registration of a topic without subscriptions removed. b.mu is held.
func (b *Broker) leave(key string, registration int64) {
	b.gone[key] = registration
	select {
	case b.leaving <- struct{}{}:
	default:
	}
}

// leaveAtOnce is how many registrations are removed by one statement.
const leaveAtOnce = 1000

// unregister removes registrations. One that was made anew since stays: it has another number.
func (b *Broker) unregister() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.leaving:
		}
		b.mu.Lock()
		gone := b.gone
		b.gone = make(map[string]int64)
		b.mu.Unlock()
		var topics []string
		for key := range gone {
			topics = append(topics, key)
		}
		for part := range slices.Chunk(topics, leaveAtOnce) {
			registrations := make([]int64, len(part))
			for i, key := range part {
				registrations[i] = gone[key]
			}
			b.tryUntilDone(func(ctx context.Context) error {
				_, err := b.pool.Exec(ctx, b.sql.unregister, part, registrations)
				return err
			}, func(error) {}) // the database is away, which the listener reports
		}
	}
}
