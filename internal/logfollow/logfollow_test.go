package logfollow_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/logfollow"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// failing is a log that cannot be read while fails is set, and is lost when lost is.
type failing struct {
	mu sync.Mutex
	memory.Broker
	fails bool
	lost  bool // at the next Read from a position
}

var errFails = errors.New("it fails")

func (f *failing) set(change func(*failing)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *failing) Read(ctx context.Context, topic string, h pubsub.History, o pubsub.ReadOptions) (pubsub.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails {
		return pubsub.Page{}, errFails
	}
	if f.lost && o.From != (pubsub.Position{}) {
		f.lost = false
		return pubsub.Page{Lost: pubsub.LossEpoch}, nil
	}
	return f.Broker.Read(ctx, topic, h, o)
}

var history = pubsub.History{Messages: 3, Bytes: 1 << 20, Age: time.Hour}

// follow follows the log "log", and returns what was taken.
func follow(t *testing.T, log pubsub.Log) (f *logfollow.Follower, taken func() []string) {
	var mu sync.Mutex
	var list []string
	f = &logfollow.Follower{
		Log: log, Topic: "log", History: history,
		Take: func(m pubsub.Message) {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, string(m.Frame))
		},
		Restart: func() {
			mu.Lock()
			defer mu.Unlock()
			list = nil
		},
		Outage: outage.Reporter{Component: "log", Log: slog.New(slog.DiscardHandler)},
	}
	f.Start()
	t.Cleanup(f.Close)
	return f, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func add(t *testing.T, log pubsub.Log, text string) pubsub.Position {
	t.Helper()
	at, err := log.Append(t.Context(), pubsub.Message{Topic: "log", Frame: []byte(text)}, history, "")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// All messages are taken, in order and once, also those of before, those of an outage, and again when the log was lost.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &failing{Broker: memory.NewBroker()}
		add(t, log, "a")
		f, taken := follow(t, log)
		want := func(want ...string) {
			t.Helper()
			if got := taken(); !slices.Equal(got, want) {
				t.Errorf("taken: %q, want %q", got, want)
			}
		}
		if err := f.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("a")
		if err := f.Reach(t.Context(), add(t, log, "b")); err != nil {
			t.Fatal(err)
		}
		want("a", "b")

		log.set(func(l *failing) { l.fails = true })
		at := add(t, log, "c")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := f.Reach(ctx, at); err != context.DeadlineExceeded {
			t.Errorf("a log that fails was read: %v", err)
		}
		want("a", "b")
		log.set(func(l *failing) { l.fails = false })
		if err := f.Reach(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		want("a", "b", "c")

		log.set(func(l *failing) { l.lost = true })
		if err := f.Reach(t.Context(), add(t, log, "d")); err != nil {
			t.Fatal(err)
		}
		want("b", "c", "d") // the log has no more
		f.Close()
		if err := f.Reach(t.Context(), pubsub.Position{Epoch: 1, Offset: 9}); err != logfollow.ErrEnded {
			t.Errorf("after Close: %v", err)
		}
	})
}
