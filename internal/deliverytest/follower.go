package deliverytest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// Follower takes part in a topic as a client and its server do together: it subscribes, reads what it
// missed, goes on with what is delivered, and reads again when it may have missed something. Now and then it
// goes away for some time. It records what it receives. What fails it tries again.
type Follower struct {
	Log           pubsub.Log
	History       pubsub.History
	Recorder      *Recorder
	Client, Topic string

	at pubsub.Position

	mu   sync.Mutex
	live []pubsub.Message // a call of deliver may add one after its subscription was closed
}

// pause is the time between two looks at what was delivered.
const pause = time.Millisecond

// Follow follows the topic until ctx ends.
func (f *Follower) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		stay := rand.IntN(200)
		if rand.IntN(3) == 0 {
			stay = rand.IntN(5)
		}
		f.visit(ctx, stay)
		sleep(ctx, time.Duration(rand.IntN(20))*pause)
	}
}

// Settle receives what is left when nothing fails any more. It returns when ctx ends, or nothing is left.
func (f *Follower) Settle(ctx context.Context) error {
	for {
		err := f.begin(ctx)
		if err == nil {
			err = f.catchUp(ctx)
		}
		if err == nil {
			f.record(Settled, func(*Event) {})
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		sleep(ctx, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (f *Follower) record(kind Kind, change func(*Event)) {
	e := Event{Kind: kind, Client: f.Client, Topic: f.Topic, Pos: f.at.String()}
	change(&e)
	f.Recorder.Record(e)
}

func (f *Follower) receive(m pubsub.Message) {
	f.at = m.Position
	f.record(Received, func(e *Event) { e.ID = string(bytes.TrimRight(m.Frame, ".")) })
}

// visit subscribes and follows the topic for some rounds.
func (f *Follower) visit(ctx context.Context, rounds int) {
	sub, err := f.Log.Subscribe(ctx, f.Topic, func(m pubsub.Message) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.live = append(f.live, m)
	})
	if err != nil {
		return
	}
	defer func() { _ = sub.Close() }()
	if f.begin(ctx) != nil {
		return
	}
	missed := true // a failed read is repeated
	for range rounds {
		if missed {
			missed = f.catchUp(ctx) != nil
		}
		f.mu.Lock()
		live := f.live
		f.live = nil
		f.mu.Unlock()
		for _, m := range live {
			switch same := m.Position.Epoch == f.at.Epoch; {
			case m.Lost:
				missed = true
			case same && m.Position.Offset <= f.at.Offset:
				// It was read before, or the log has lost its end.
				missed = missed || m.Position.Offset == f.at.Offset && m.Position != f.at
			case same && m.Position.Offset == f.at.Offset+1 && m.Previous == f.at.Tag:
				f.receive(m)
			default:
				missed = true
			}
		}
		if rand.IntN(50) == 0 {
			heads, err := f.Log.Heads(ctx, []string{f.Topic})
			missed = missed || err != nil || heads[0] != f.at
		}
		if ctx.Err() != nil {
			return
		}
		sleep(ctx, pause)
	}
}

// begin gives a new follower its position.
func (f *Follower) begin(ctx context.Context) error {
	if f.at != (pubsub.Position{}) {
		return nil
	}
	page, err := f.Log.Read(ctx, f.Topic, f.History, pubsub.ReadOptions{})
	if err != nil {
		return err
	}
	f.at = page.Head
	f.record(Joined, func(*Event) {})
	return nil
}

// catchUp reads up to the head, or goes to the head if it cannot.
func (f *Follower) catchUp(ctx context.Context) error {
	for {
		page, err := f.Log.Read(ctx, f.Topic, f.History, pubsub.ReadOptions{From: f.at, Messages: 7, Bytes: 400})
		if err != nil {
			return err
		}
		if page.Lost != pubsub.LossNone {
			f.at = page.Head
			f.record(Reset, func(e *Event) { e.Reason = string(page.Lost) })
		}
		for _, m := range page.Messages {
			f.receive(m)
		}
		if !page.More {
			return nil
		}
	}
}

// Audit records all that a log has, as what a new client received. So Check has the order of the
// log also where no client received it. It records nothing if reading fails.
func Audit(ctx context.Context, r *Recorder, l pubsub.Log, topic string, h pubsub.History, client string) {
	page, err := l.Read(ctx, topic, h, pubsub.ReadOptions{Messages: 1 << 20, Bytes: 1 << 30})
	if err != nil {
		return
	}
	f := &Follower{Recorder: r, Client: client, Topic: topic}
	r.Record(Event{Kind: Joined, Client: client, Topic: topic})
	for _, m := range page.Messages {
		f.receive(m)
	}
}

// Append appends a message whose frame begins with id, and repeats the call while it fails, until ctx
// ends. It records what is known then.
func Append(ctx context.Context, r *Recorder, l pubsub.Log, topic string, h pubsub.History, id string) {
	e := Event{Kind: Published, Topic: topic, ID: id, Outcome: Acked, Begun: r.Now()}
	m := pubsub.Message{Topic: topic, Frame: append([]byte(id), bytes.Repeat([]byte("."), rand.IntN(100))...)}
	for {
		_, err := l.Append(ctx, m, h, id)
		if err == nil && rand.IntN(10) == 0 { // as if the answer had been lost
			_, err = l.Append(ctx, m, h, id)
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			e.Outcome = Unknown
			break
		}
		sleep(ctx, pause)
	}
	r.Record(e)
}
