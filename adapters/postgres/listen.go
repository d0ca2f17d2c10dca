package postgres

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/pubsub"
)

// A notification has a kind and its text:
//
//	l MD5      the log of a topic has more messages
//	m JSON     a message that is not kept
//	r ID       a large message that is not kept, in the table large
//	p ID       it has come back: see fence

// live is a message that is not kept.
type live struct {
	Topic    string `json:"t"` // the md5
	Frame    []byte `json:"f"`
	Overflow uint8  `json:"o,omitempty"`
	Key      []byte `json:"k,omitempty"`
	Except   []byte `json:"e,omitempty"`
}

// maxInline is the size of the largest notification: PostgreSQL has 8,000 bytes.
const maxInline = 7900

func digest(topic string) string {
	sum := md5.Sum([]byte(topic)) // names a topic in a notification; a collision would only be a message more to look at
	return hex.EncodeToString(sum[:])
}

// Publish implements [pubsub.Broker].
func (b *Broker) Publish(ctx context.Context, m pubsub.Message) error {
	if err := checkTopic(m.Topic); err != nil {
		return err
	}
	body, err := json.Marshal(live{digest(m.Topic), m.Frame, m.Overflow, []byte(m.Key), []byte(m.Except)})
	if err != nil {
		return err
	}
	return b.call(ctx, "publishing", func(ctx context.Context) error {
		if len(body) < maxInline {
			_, err := b.pool.Exec(ctx, b.sql.notifyLive, b.channel(), string(body))
			return err
		}
		_, err := b.pool.Exec(ctx, b.sql.keepLarge, b.channel(), body)
		return err
	})
}

// topic is one that has subscriptions in this process. Broker.mu guards it.
type topic struct {
	name string
	subs []*subscription // replaced, never changed
	at   head            // of the last message of the log that was delivered
}

// Subscribe implements [pubsub.Broker].
func (b *Broker) Subscribe(ctx context.Context, name string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	s := &subscription{b: b, deliver: deliver}
	err := b.call(ctx, "subscribing", func(ctx context.Context) error {
		if err := b.fence(ctx); err != nil {
			return err
		}
		at, err := b.headOf(ctx, name) // before which nothing is delivered
		if err != nil {
			return err
		}
		s.from = at
		b.mu.Lock()
		defer b.mu.Unlock()
		t := b.topics[digest(name)]
		if t == nil {
			t = &topic{name: name, at: at}
			b.topics[digest(name)] = t
			b.look(t) // what was appended in between
		}
		s.topic = t
		t.subs = append(t.subs[:len(t.subs):len(t.subs)], s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fence returns when all notifications of before have been taken, so that none of them is for a new subscription.
func (b *Broker) fence(ctx context.Context) error {
	if err := b.awaitUp(ctx); err != nil {
		return err
	}
	id, back := rand.Text(), make(chan struct{})
	b.mu.Lock()
	b.fences[id] = back
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.fences, id)
	}()
	if _, err := b.pool.Exec(ctx, b.sql.notify, b.channel(), id); err != nil {
		return err
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitUp returns when the connection listens.
func (b *Broker) awaitUp(ctx context.Context) error {
	b.mu.Lock()
	up := b.up
	b.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.ctx.Done():
		return pubsub.ErrClosed
	}
}

// listen takes notifications, and connects again when the connection is lost.
func (b *Broker) listen(conn *pgx.Conn) {
	for {
		b.setUp(true)
		err := b.take(conn)
		b.setUp(false)
		_ = conn.Close(b.ctx)
		for b.ctx.Err() == nil {
			b.fails.Failed(err)
			ctx, cancel := context.WithTimeout(b.ctx, b.o.Timeout)
			conn, err = b.connect(ctx)
			cancel()
			if err == nil {
				b.fails.Works()
				break
			}
			pause(b.ctx)
		}
		if b.ctx.Err() != nil {
			return
		}
		b.mu.Lock()
		for _, t := range b.topics {
			b.push(t, pubsub.Message{Topic: t.name, Lost: true})
			b.look(t)
		}
		b.mu.Unlock()
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
}

func (b *Broker) setUp(up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if up {
		close(b.up)
	} else {
		b.up = make(chan struct{})
	}
}

// push gives a message to the subscriptions of a topic. b.mu is held.
func (b *Broker) push(t *topic, m pubsub.Message) {
	for _, s := range t.subs {
		if at := m.Position; at.Offset == 0 || at.Epoch != uint64(s.from.epoch) || at.Offset > uint64(s.from.off) {
			s.push(m)
		}
	}
}

// take takes notifications until the connection is lost.
func (b *Broker) take(conn *pgx.Conn) error {
	for {
		n, err := conn.WaitForNotification(b.ctx)
		if err != nil {
			return err
		}
		kind, text := n.Payload[:min(1, len(n.Payload))], n.Payload[min(1, len(n.Payload)):]
		switch kind {
		case "l":
			b.mu.Lock()
			if t := b.topics[text]; t != nil {
				b.look(t)
			}
			b.mu.Unlock()
		case "p":
			b.mu.Lock()
			if back := b.fences[text]; back != nil {
				delete(b.fences, text)
				close(back)
			}
			b.mu.Unlock()
		case "m":
			b.takeLive([]byte(text))
		case "r":
			if err := b.takeLarge(text); err != nil {
				return err
			}
		}
	}
}

func (b *Broker) takeLive(body []byte) {
	var l live
	if json.Unmarshal(body, &l) != nil {
		b.foreign()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[l.Topic]; t != nil {
		b.push(t, pubsub.Message{Topic: t.name, Frame: l.Frame, Overflow: l.Overflow, Key: string(l.Key), Except: string(l.Except)})
	}
}

// foreign logs the first notification of another program.
func (b *Broker) foreign() {
	b.other.Do(func() {
		b.o.Logger.Warn("postgres: a notification that no Broker has sent was dropped; further ones are, too", "channel", b.channel())
	})
}

func (b *Broker) takeLarge(text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.foreign()
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.o.Timeout)
	defer cancel()
	var body []byte
	if err := b.pool.QueryRow(ctx, b.sql.large, id).Scan(&body); err != nil {
		return err // the connection is made anew, and the loss reported
	}
	b.takeLive(body)
	return nil
}
