package postgres

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/pubsub"
)

// Broker is a [pubsub.Log] in PostgreSQL, and a [pubsub.ReceiverCounter]: [Open] makes it. Its methods may be called
// from any goroutine.
type Broker struct {
	*database

	mu      sync.Mutex
	topics  map[string]*topic   // by the md5 of the name, which notifications have
	dirty   *work[*topic]       // whose log may have more
	gone    *work[registration] // of topics without a subscription
	unsent  *work[string]       // topics of which a notification is to be sent, by the md5
	appends *batch.Batcher[appending]

	registrations atomic.Int64 // the last one; it begins with a random number
}

// newBroker makes a broker of a database that does not listen yet.
func newBroker(d *database) *Broker {
	b := &Broker{
		database: d, topics: make(map[string]*topic), dirty: newWork[*topic](), gone: newWork[registration](),
		unsent: newWork[string](),
	}
	b.appends = batch.New(b.appendSome, batch.Options{})
	b.registrations.Store(mathrand.Int64N(1 << 62))
	d.kinds['l'], d.kinds['m'], d.kinds['r'] = b.takeLog, b.takeLive, b.takeLarge
	d.lost, d.fresh = append(d.lost, b.lostAll), b.register
	d.done.Go(func() { workOff(d, b.dirty, logsAtOnce, b.readSome, unreported) })
	d.done.Go(func() { workOff(d, b.gone, registrationsAtOnce, b.unregister, unreported) })
	d.done.Go(b.sendNotifications)
	return b
}

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

// digest names a topic in a notification. A collision would only be a message more to look at.
func digest(topic string) string {
	sum := md5.Sum([]byte(topic))
	return hex.EncodeToString(sum[:])
}

// Publish implements [pubsub.Broker].
func (b *Broker) Publish(ctx context.Context, m pubsub.Message) error {
	statement, body, err := b.sending(m)
	if err != nil {
		return err
	}
	return b.call(ctx, "publishing", func(ctx context.Context) error {
		_, err := b.pool.Exec(ctx, statement, b.channel(), body)
		return err
	})
}

// sending is the statement that sends a message that is not kept, with its last argument.
func (b *Broker) sending(m pubsub.Message) (statement, body string, err error) {
	if err := checkTopic(m.Topic); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(live{digest(m.Topic), m.Frame, m.Overflow, []byte(m.Key), []byte(m.Except)})
	if err != nil {
		return "", "", err
	}
	if len(text) < maxInline {
		return b.sql.notifyLive, string(text), nil
	}
	return b.sql.keepLarge, string(text), nil
}

// topic is one that has subscriptions in this process. Broker.mu guards it.
type topic struct {
	name         string
	subs         []*subscription // replaced, never changed
	at           head            // of the last message of the log that was delivered
	registration int64           // of this process as a receiver
}

// Subscribe implements [pubsub.Broker].
func (b *Broker) Subscribe(
	ctx context.Context, name string, deliver func(pubsub.Message),
) (pubsub.Subscription, error) {
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	s := &subscription{b: b, deliver: deliver}
	err := b.call(ctx, "subscribing", func(ctx context.Context) error {
		for {
			placed, err := b.place(ctx, name, s)
			if placed || err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// place puts a subscription into its topic, or returns false if the connection that listens was made anew in between.
func (b *Broker) place(ctx context.Context, name string, s *subscription) (placed bool, err error) {
	key := digest(name)
	made := registration{key, b.registrations.Add(1)}
	var session int32
	// Behind the fence no message of before is on its way, so none of them is for the new subscription.
	err = b.fence(ctx, func(id string) (err error) {
		session, err = b.registerOne(ctx, made, id)
		return err
	})
	if err == nil {
		s.from, err = b.headOf(ctx, name) // before which nothing is delivered
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[key]
	if t != nil {
		t.registration = max(t.registration, made.number)
	}
	if err != nil || session != b.sessionNow() {
		if t == nil {
			b.gone.add(made)
		}
		return false, err
	}
	if t == nil {
		t = &topic{name: name, at: s.from, registration: made.number}
		b.topics[key] = t
		b.dirty.add(t) // what was appended in between
	}
	s.topic = t
	t.subs = append(t.subs[:len(t.subs):len(t.subs)], s)
	return true, nil
}

// takeLog notes that the log of a topic has more messages.
func (b *Broker) takeLog(text string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[text]; t != nil {
		b.dirty.add(t)
	}
	return nil
}

// lostAll reports a loss to all subscriptions: notifications may have been missed.
func (b *Broker) lostAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.topics {
		b.push(t, pubsub.Message{Topic: t.name, Lost: true})
		b.dirty.add(t)
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

func (b *Broker) takeLive(body string) error {
	var l live
	if json.Unmarshal([]byte(body), &l) != nil {
		b.foreign()
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[l.Topic]; t != nil {
		b.push(t, pubsub.Message{
			Topic: t.name, Frame: l.Frame, Overflow: l.Overflow, Key: string(l.Key), Except: string(l.Except),
		})
	}
	return nil
}

func (b *Broker) takeLarge(text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.foreign()
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.o.Timeout)
	defer cancel()
	var body string
	if err := b.pool.QueryRow(ctx, b.sql.large, id).Scan(&body); err != nil {
		return err // the connection is made anew, and the loss reported
	}
	return b.takeLive(body)
}
