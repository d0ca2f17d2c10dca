package rights_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/rights"
)

// unreachable is a log that cannot be read at times, and reports nothing.
type unreachable struct {
	memory.Broker
	cut atomic.Bool
}

func (u *unreachable) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	return u.Broker.Subscribe(ctx, topic, func(pubsub.Message) {})
}

func (u *unreachable) Heads(ctx context.Context, topics []string) ([]pubsub.Position, error) {
	if u.cut.Load() {
		return nil, errors.New("cut")
	}
	return u.Broker.Heads(ctx, topics)
}

// After a loss, and when the others do not wait for this process, Touch does not hold until the log was read after that, and
// the others wait for the process again.
func TestTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.NewBroker()
		there := start(t, shared)
		log := &unreachable{Broker: shared}
		var revoked atomic.Int32
		here := new(rights.Rights)
		here.Config = rights.Config{
			Log: log, Topic: "rights", Keep: time.Hour, Logger: slog.New(slog.DiscardHandler),
			Carry: func(rights.Right) func() { revoked.Add(1); return nil },
		}
		if err := here.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer here.Close()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var known atomic.Bool
		var renewed atomic.Int32
		known.Store(true)
		touch := here.NewTouch(ctx, known.Load, func(context.Context) error {
			if renewed.Add(1); log.cut.Load() {
				return errors.New("cut")
			}
			known.Store(true)
			return nil
		})
		if !touch.Holds() {
			t.Error("it does not hold at the beginning")
		}
		for i, away := range []func(){touch.Lost, func() { known.Store(false) }} {
			log.cut.Store(true)
			there.revoke(t, "ann", "x") // of which this process is not told
			away()
			for range 3 {
				time.Sleep(time.Second)
				if touch.Holds() {
					t.Errorf("%d: it holds, and the log cannot be read", i)
				}
			}
			over, cancel := context.WithTimeout(ctx, time.Second)
			if err := touch.Await(over); err != context.DeadlineExceeded {
				t.Errorf("%d: Await: %v", i, err)
			}
			cancel()
			log.cut.Store(false)
			if err := touch.Await(ctx); err != nil || !touch.Holds() {
				t.Errorf("%d: Await: %v", i, err)
			}
			if n := int(revoked.Load()); n != i+1 {
				t.Errorf("%d: %d revocations are carried out when it holds", i, n)
			}
		}
		if renewed.Load() == 0 {
			t.Error("the others are not told")
		}
	})
}
