package memory_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/pubsub"
)

// follower is a subscriber that goes away and comes back, and reads what it missed.
type follower struct {
	*testing.T
	b           *memory.Broker
	r           *deliverytest.Recorder
	h           pubsub.History
	name, topic string
	at          pubsub.Position

	mu   sync.Mutex
	live []pubsub.Message // a call of deliver may add one after its subscription was closed
}

func (f *follower) record(kind deliverytest.Kind, change func(*deliverytest.Event)) {
	e := deliverytest.Event{Kind: kind, Client: f.name, Topic: f.topic, Pos: f.at.String()}
	change(&e)
	f.r.Record(e)
}

func (f *follower) receive(m pubsub.Message) {
	f.at = m.Position
	f.record(deliverytest.Received, func(e *deliverytest.Event) { e.ID = string(bytes.TrimRight(m.Frame, ".")) })
}

// catchUp reads up to the head, or goes to the head if that is not possible.
func (f *follower) catchUp() {
	for {
		page, err := f.b.Read(ctx, f.topic, f.h, pubsub.ReadOptions{From: f.at, Messages: 7, Bytes: 400})
		if err != nil {
			f.Error(err)
			return
		}
		if page.Lost != pubsub.LossNone {
			f.at = page.Head
			f.record(deliverytest.Reset, func(e *deliverytest.Event) { e.Reason = string(page.Lost) })
		}
		for _, m := range page.Messages {
			f.receive(m)
		}
		if !page.More {
			return
		}
	}
}

// visit subscribes, catches up, and follows what is delivered until enough.
func (f *follower) visit(enough func() bool) {
	sub, err := f.b.Subscribe(ctx, f.topic, func(m pubsub.Message) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.live = append(f.live, m)
	})
	if err != nil {
		f.Error(err)
		return
	}
	if f.at == (pubsub.Position{}) {
		page, _ := f.b.Read(ctx, f.topic, f.h, pubsub.ReadOptions{})
		f.at = page.Head
		f.record(deliverytest.Joined, func(*deliverytest.Event) {})
	}
	f.catchUp()
	for {
		last := enough()
		f.mu.Lock()
		live := f.live
		f.live = nil
		f.mu.Unlock()
		for _, m := range live {
			switch same := m.Position.Epoch == f.at.Epoch; {
			case same && m.Position.Offset <= f.at.Offset: // was read
			case same && m.Position.Offset == f.at.Offset+1 && m.Previous == f.at.Tag:
				f.receive(m)
			default:
				f.catchUp()
			}
		}
		if last {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	if err := sub.Close(); err != nil {
		f.Error(err)
	}
	if enough() {
		f.catchUp()
	}
}

// Subscribers that come and go get each message once and in order, or a reason why they do not, while logs
// are trimmed, and end because there is no room.
func TestNothingIsMissedInSilence(t *testing.T) {
	for name, test := range map[string]struct {
		most int
		h    pubsub.History
	}{
		"plenty":     {0, hour},
		"short":      {0, pubsub.History{Messages: 30, Bytes: 1 << 20, Age: time.Hour}},
		"aging":      {0, pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: 2 * time.Millisecond}},
		"small":      {30_000, hour},
		"very small": {3000, hour},
	} {
		t.Run(name, func(t *testing.T) {
			var recording bytes.Buffer
			b, r := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: test.most}), deliverytest.NewRecorder(&recording)
			const topics, publishers, each, followers = 3, 4, 300, 4
			var publishing, following sync.WaitGroup
			var done atomic.Bool
			for i := range topics * followers {
				following.Go(func() {
					random := rand.New(rand.NewPCG(rand.Uint64(), 0))
					f := &follower{T: t, b: b, r: r, h: test.h, name: fmt.Sprint("follower", i), topic: fmt.Sprint("topic", i%topics)}
					for !done.Load() {
						rounds := random.IntN(30)
						f.visit(func() bool { rounds--; return rounds < 0 })
						time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
					}
					f.visit(func() bool { return true })
					f.record(deliverytest.Settled, func(*deliverytest.Event) {})
				})
			}
			for p := range publishers {
				publishing.Go(func() {
					random := rand.New(rand.NewPCG(rand.Uint64(), 0))
					for i := range each {
						topic := fmt.Sprint("topic", random.IntN(topics))
						e := deliverytest.Event{Kind: deliverytest.Published, Topic: topic, ID: fmt.Sprintf("%d-%d", p, i), Outcome: deliverytest.Acked, Begun: r.Now()}
						m := pubsub.Message{Topic: topic, Frame: append([]byte(e.ID), bytes.Repeat([]byte("."), random.IntN(100))...)}
						id := e.ID
						if test.most > 0 {
							id = "" // there is no room for all
						}
						first, err := b.Append(ctx, m, test.h, id)
						if id != "" && random.IntN(3) == 0 {
							var again pubsub.Position
							if again, err = b.Append(ctx, m, test.h, id); again != first {
								t.Errorf("%q was appended at %+v and at %+v", id, first, again)
							}
						}
						if err != nil {
							t.Error(err)
						}
						r.Record(e)
						if random.IntN(10) == 0 {
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			publishing.Wait()
			done.Store(true)
			following.Wait()
			events, err := deliverytest.Read(&recording)
			if err != nil || r.Err() != nil {
				t.Fatal(err, r.Err())
			}
			report := deliverytest.Check(events)
			t.Log(report)
			if len(report.Violations) > 0 || report.Received < publishers*each || name == "plenty" && len(report.Resets) > 0 {
				t.Error(report)
			}
		})
	}
}
