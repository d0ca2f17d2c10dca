package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/pubsub"
)

// A process registers each topic that it subscribes to, under the session of its connection that listens. A
// registration counts while that session holds its lock: those of a process that was killed, or that lost the
// connection, do not.

// registration is one of a topic, by the md5 of its name. A later one has a larger number.
type registration struct {
	topic  string
	number int64
}

// PublishCounted implements [pubsub.ReceiverCounter].
func (b *Broker) PublishCounted(ctx context.Context, m pubsub.Message) (receivers int, err error) {
	statement, body, err := b.sending(m)
	if err != nil {
		return 0, err
	}
	err = b.call(ctx, "publishing", func(ctx context.Context) error {
		var batch pgx.Batch // one transaction, and one round trip
		batch.Queue(statement, b.channel(), body)
		batch.Queue(b.sql.receivers, b.o.Schema, digest(m.Topic)).
			QueryRow(func(row pgx.Row) error { return row.Scan(&receivers) })
		return b.pool.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return 0, err
	}
	return receivers, nil
}

// registerOne registers a topic, and has a notification sent for a fence. It returns under which session.
func (b *Broker) registerOne(ctx context.Context, r registration, fence string) (session int32, err error) {
	session = b.sessionNow()
	_, err = b.pool.Exec(ctx, b.sql.register, []string{r.topic}, []int64{r.number}, session, b.channel(), fence)
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

// registrationsAtOnce is how many registrations are removed by one statement.
const registrationsAtOnce = 1000

// unregister removes registrations. A topic that was registered anew since stays: that has another number.
func (b *Broker) unregister(ctx context.Context, gone []registration) error {
	topics, numbers := make([]string, len(gone)), make([]int64, len(gone))
	for i, r := range gone {
		topics[i], numbers[i] = r.topic, r.number
	}
	_, err := b.pool.Exec(ctx, b.sql.unregister, topics, numbers)
	return err
}
