package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// interrupted is a store across a network, which can be cut.
type interrupted struct {
	limit.Store
	cut atomic.Bool
}

func (s *interrupted) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	if s.cut.Load() {
		return limit.Decision{}, errors.New("cut")
	}
	return s.Store.Take(ctx, key, policy, cost)
}

// While the store of a limiter fails so often that it is not asked any more, a part of the messages is refused if the
// application says so, and all are accepted again afterwards.
func TestOverloadByTheStoreOfALimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &interrupted{Store: memory.NewStore()}
		l := limit.New(store, limit.TokenBucket{Capacity: 1_000_000, Refill: 1, Per: time.Second}, limit.Options{Name: "messages"})
		r := router.New(router.Options{
			Overload: router.OverloadOptions{Enabled: true, Busy: func() bool { return l.Stats().Degraded }},
		})
		r.Use(ratelimit.New(l, func(k limit.Key, _ *ingress.Context) limit.Key { return k.Part("all") }))
		router.RPC(r, "work", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		c := routertest.New(t, r).Dial()
		sent := 0
		load := func(lasts time.Duration) (ok, refused int) {
			for began := time.Now(); time.Since(began) < lasts; time.Sleep(10 * time.Millisecond) {
				sent++
				c.SendRaw(fmt.Sprintf(`{"type":"work","meta":{"correlationId":"%d"},"payload":{}}`, sent))
			}
			synctest.Wait()
			for _, f := range c.Frames() {
				if f.Type != "RPC_ERROR" {
					ok++
				} else if refused++; !strings.Contains(string(f.Payload), `"UNAVAILABLE"`) || !strings.Contains(string(f.Payload), `"retryAfterMs"`) {
					t.Errorf("refused with %s", f.Payload)
				}
			}
			return ok, refused
		}
		if _, refused := load(2 * time.Second); refused != 0 {
			t.Errorf("%d messages are refused while the store answers", refused)
		}
		store.cut.Store(true)
		if ok, refused := load(4 * time.Second); refused == 0 || ok == 0 || !r.Stats().Overload.Refusing {
			t.Errorf("%d messages are handled and %d refused while the store fails; want some of each", ok, refused)
		}
		store.cut.Store(false)
		load(15 * time.Second)
		if ok, refused := load(time.Second); refused != 0 || ok == 0 || r.Stats().Overload.Refusing {
			t.Errorf("15 s after the store came back, %d messages are handled and %d refused", ok, refused)
		}
	})
}
