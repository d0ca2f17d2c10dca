package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

func budgetOf(c *routertest.Client) run.Left {
	return routertest.ExpectReply[run.Left](c.Request("run.budget", struct{}{}))
}

// A run reserves a slice of the budget, and gives back what it does not use, whether it is done, failed or stopped. One
// for which the budget is used up fails, with the time to wait, and others are not begun.
func TestBudget(t *testing.T) {
	budget := limit.FixedWindow{Limit: 100, Window: 24 * time.Hour}
	in(t, run.Options{Budget: budget, Slice: 10}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		left := int64(100)
		ends := func(v *viewer, state run.State, spent int64) {
			t.Helper()
			if v.watch(); v.end.State != state || v.spent != spent {
				t.Errorf("the end is %+v with %d spent, want %s with %d", v.end, v.spent, state, spent)
			}
			synctest.Wait()
			left -= spent
			if got := budgetOf(c); got.Left != left || got.Limit != 100 {
				t.Fatalf("%+v, want %d left", got, left)
			}
		}
		ends(attach(t, c, begin(c, "a SPEND SPEND b")), run.Done, 14) // seven each
		ends(attach(t, c, begin(c, "SPEND SPEND FAIL")), run.Failed, 14)
		v := attach(t, c, begin(c, "SPEND "+long))
		for v.spent == 0 {
			v.next()
		}
		if got := budgetOf(c).Left; got != left-10 {
			t.Errorf("%d left while a run has reserved a slice of 10, of %d", got, left)
		}
		c.Request("run.stop", run.Ref{Run: v.id})
		ends(v, run.Stopped, 7)
		v = attach(t, c, begin(c, strings.Repeat("SPEND ", 20)))
		ends(v, run.Failed, 63) // nine times seven, of 65
		if v.end.Code != errors.ResourceExhausted {
			t.Errorf("the end is %+v", v.end)
		}
		ends(attach(t, c, begin(c, "a")), run.Done, 0) // two are left
		begin(c, "a a a a a a a a a a")
		synctest.Wait()
		e := c.Request("ask", Ask{"a"}).ExpectError(errors.ResourceExhausted)
		if e.RetryAfterMs == nil || *e.RetryAfterMs <= 0 || *e.RetryAfterMs > 86_400_000 {
			t.Errorf("a run without a budget is refused with %+v", e)
		}
		begin(s.Dial(routertest.DialOptions{Token: "bob.1"}), "a")
		s.Dial(routertest.DialOptions{Token: ".1"}).Request("ask", Ask{"a"}).ExpectError(errors.Unauthenticated)
	})
}

// failingRefunds is a store of which some refunds fail.
type failingRefunds struct {
	memory.Store
	failed *atomic.Int64
}

func (f failingRefunds) Refund(ctx context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	if rand.IntN(4) == 0 {
		f.failed.Add(1)
		return errors.Unavailable.New("the store has failed")
	}
	return f.Store.Refund(ctx, key, policy, taken)
}

// A million steps of runs that spend, end, fail and are stopped, while giving back fails now and then: no user spends
// more than the budget, and when all have ended no more is charged than was spent, and a slice for each failure.
func TestNeverMoreThanTheBudget(t *testing.T) {
	const most, slice, users, stepsEach = 400_000, 50, 8, 4000
	synctest.Test(t, func(t *testing.T) {
		var failed, steps atomic.Int64
		var spent [users]atomic.Int64
		quiet := slog.New(slog.DiscardHandler)
		store := failingRefunds{memory.NewStore(), &failed}
		r := router.New(router.Options{
			Backend: adapters.Backend{Limits: store}, Authenticate: authenticate, Logger: quiet,
		})
		runs, err := run.New(r, run.Options{
			Budget: limit.FixedWindow{Limit: most, Window: 24 * time.Hour}, Slice: slice, AtOnce: -1, Logger: quiet,
		})
		if err != nil {
			t.Fatal(err)
		}
		run.Handle(runs, "spend", func(_ context.Context, user int, w *run.Writer) error {
			for range 1 + rand.IntN(stepsEach) {
				steps.Add(1)
				units := rand.Int64N(7)
				if rand.IntN(500) == 0 {
					units = rand.Int64N(3 * slice)
				}
				if err := w.Spend(units); err != nil {
					return err
				}
				if total := spent[user].Add(units); total > most {
					t.Errorf("%d units are spent, of %d", total, most)
				}
				if rand.IntN(100) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			return nil
		})
		s := routertest.New(t, r)
		for user := range users {
			c, before, left := s.Dial(routertest.DialOptions{Token: fmt.Sprint(user, ".1")}), failed.Load(), int64(most)
			for left >= slice {
				for i := range 20 {
					c.Request("spend", user)
					synctest.Wait()
					if f := c.Frames(); i%3 == 0 && f[0].Type == "spend" {
						var began run.Began
						_ = json.Unmarshal(f[0].Payload, &began)
						routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref(began)))
					}
				}
				time.Sleep(time.Minute) // all have ended
				left = budgetOf(c).Left
			}
			charged, spent := most-left, spent[user].Load()
			if charged < spent || charged > spent+slice*(failed.Load()-before) {
				t.Errorf("%d charged, and %d spent with %d failures to give back", charged, spent, failed.Load()-before)
			}
		}
		if n := steps.Load(); n < 1_000_000 {
			t.Errorf("%d steps", n)
		}
	})
}
