package limittest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// holder is a key of a store that is a limit.LeaseStore.
type holder struct {
	t     *testing.T
	store limit.LeaseStore
	clock *Clock
	key   string
}

const leaseTime = 30 * time.Second

func newHolder(t *testing.T, s Subject) holder {
	t.Helper()
	store := has[limit.LeaseStore](t, s)
	s.Clock.set(epoch)
	return holder{t, store, s.Clock, fmt.Sprintf("limittest:hold:%d", keys.Add(1))}
}

func (h holder) lease(id string) limit.Lease { return limit.Lease{Key: h.key, ID: id} }

// acquire takes a lease and checks all fields of the decision except Allowed.
func (h holder) acquire(id string, most int64) bool {
	h.t.Helper()
	before := h.held()
	d, err := h.store.Acquire(context.Background(), h.lease(id), most, leaseTime)
	if err != nil {
		h.t.Fatalf("rule broken: a valid call gets a decision\nAcquire returned the error %v", err)
	}
	after := h.held()
	if d.Limit != most || d.Remaining != max(0, most-after) || d.RetryAfter != 0 || d.Impossible {
		h.t.Errorf("rule broken: a decision about leases says how many are left\n%d of %d are held now: %s", after, most, describe(d))
	}
	if after > 0 && (d.ResetAfter <= 0 || d.ResetAfter > leaseTime) {
		h.t.Errorf("rule broken: a decision about leases says when the first lease ends\nleases of %v: %s", leaseTime, describe(d))
	}
	if !d.Allowed && after != before {
		h.t.Errorf("rule broken: a denial changes nothing\n%d leases were held, and %d are after a denial", before, after)
	}
	return d.Allowed
}

func (h holder) held() int64 {
	h.t.Helper()
	n, ids, err := h.store.Held(context.Background(), h.key, 0)
	if err != nil || len(ids) > 0 {
		h.t.Fatalf("Held: %q, %v", ids, err)
	}
	return n
}

func (h holder) expect(want int64, rule string) {
	h.t.Helper()
	if got := h.held(); got != want {
		h.t.Fatalf("rule broken: %s\n%d leases are held, want %d", rule, got, want)
	}
}

func (h holder) release(ids ...string) {
	h.t.Helper()
	if err := h.store.Release(context.Background(), h.leases(ids...)); err != nil {
		h.t.Fatalf("Release: %v", err)
	}
}

func (h holder) renew(ids ...string) {
	h.t.Helper()
	if err := h.store.Renew(context.Background(), h.leases(ids...), leaseTime); err != nil {
		h.t.Fatalf("Renew: %v", err)
	}
}

func (h holder) leases(ids ...string) (leases []limit.Lease) {
	for _, id := range ids {
		leases = append(leases, h.lease(id))
	}
	return leases
}

// leasesUpToTheLimit: a key can have as many leases as the limit, and another one only after
// one is released. Keys are independent.
func leasesUpToTheLimit(t *testing.T, s Subject) {
	h, other := newHolder(t, s), newHolder(t, s)
	for i := range 3 {
		if !h.acquire(strconv.Itoa(i), 3) {
			t.Fatalf("rule broken: there are as many leases as the limit says\nnumber %d of 3 is denied", i+1)
		}
	}
	for range 3 {
		if h.acquire("more", 3) {
			t.Fatal("rule broken: there are no more leases than the limit says")
		}
	}
	if !other.acquire("0", 1) {
		t.Error("rule broken: each key has its own leases")
	}
	h.release("1", "never held")
	h.release("1")
	h.expect(2, "a lease is released once, and by its own holder")
	if !h.acquire("more", 3) || h.acquire("yet more", 3) {
		t.Error("rule broken: a released lease is free again")
	}
	// Each call has the limit. A lower one removes no lease.
	if h.acquire("yet more", 1) {
		t.Error("rule broken: a lowered limit applies at once")
	}
	h.expect(3, "a lowered limit takes nothing away")
	h.release("0", "2", "more")
	h.expect(0, "all leases can be released")

	for name, call := range map[string]func() error{
		"no leases":    func() error { _, err := h.store.Acquire(context.Background(), h.lease("x"), 0, leaseTime); return err },
		"negative":     func() error { _, err := h.store.Acquire(context.Background(), h.lease("x"), -1, leaseTime); return err },
		"no lease":     func() error { _, err := h.store.Acquire(context.Background(), h.lease("x"), 1, 0); return err },
		"nothing more": func() error { return h.store.Renew(context.Background(), h.leases("x"), 0) },
	} {
		if err := call(); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("rule broken: an invalid argument is an error\n%s: %v", name, err)
		}
	}
	h.expect(0, "what is refused holds nothing")
}

// holdingAgainIsOnce: a call with an unknown outcome may be repeated.
func holdingAgainIsOnce(t *testing.T, s Subject) {
	h := newHolder(t, s)
	for range 3 {
		if !h.acquire("a", 1) {
			t.Fatal("rule broken: acquiring a held lease again succeeds")
		}
	}
	h.expect(1, "a lease is counted once")
	s.Clock.Advance(leaseTime - time.Microsecond)
	h.acquire("a", 1)
	s.Clock.Advance(leaseTime - time.Microsecond)
	h.expect(1, "to hold a lease again is a new lease")
}

// leasesRunOut: leases that are not renewed expire after their time, not earlier, and leave
// no state behind.
func leasesRunOut(t *testing.T, s Subject) {
	h := newHolder(t, s)
	h.acquire("early", 2)
	s.Clock.Advance(leaseTime / 3)
	h.acquire("late", 2)
	s.Clock.Advance(leaseTime - leaseTime/3 - time.Millisecond)
	if h.acquire("next", 2) {
		t.Error("rule broken: a lease is held until it expires")
	}
	s.Clock.Advance(time.Millisecond)
	h.expect(1, "a lease is held no longer than its lease")
	if !h.acquire("next", 2) || h.acquire("too many", 2) {
		t.Error("rule broken: an expired lease is free again")
	}
	s.Clock.Advance(leaseTime)
	h.expect(0, "all leases run out")
}

// renewalsBringBack: a renewed lease stays held. A lease that expired, or that the store
// lost, is held again after a renewal, even above the limit.
func renewalsBringBack(t *testing.T, s Subject) {
	h := newHolder(t, s)
	h.acquire("a", 2)
	h.acquire("b", 2)
	for range 5 {
		s.Clock.Advance(leaseTime / 2)
		h.renew("a")
	}
	h.expect(1, "only what is renewed is held on")
	h.acquire("c", 2)
	h.renew("a", "b")
	h.expect(3, "a renewal brings back what was lost")
	if h.acquire("d", 3) {
		t.Error("rule broken: a renewed lease counts")
	}
	h.renew()
	h.release()
}

// leasesAreListed: the list of a key has the ID of each held lease once.
func leasesAreListed(t *testing.T, s Subject) {
	h, other := newHolder(t, s), newHolder(t, s)
	expect := func(n int, want ...string) {
		t.Helper()
		count, got, err := h.store.Held(context.Background(), h.key, n)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) || count != int64(len(want)) {
			t.Errorf("rule broken: the leases that are held can be listed\ngot %q of %d, %v, want %q", got, count, err, want)
		}
	}
	expect(10)
	other.acquire("other", 9)
	h.acquire("a", 9)
	h.acquire("gone", 9)
	s.Clock.Advance(leaseTime - time.Second)
	h.renew("a")
	h.acquire("b: any text", 9)
	h.acquire("released", 9)
	h.release("released")
	s.Clock.Advance(time.Second)
	expect(10, "a", "b: any text")
	expect(2, "a", "b: any text")
	if count, got, err := h.store.Held(context.Background(), h.key, 1); err != nil || len(got) != 1 || count != 2 {
		t.Errorf("rule broken: no more leases are listed than are asked for\ngot %q of %d, %v, want one of 2", got, count, err)
	}
}

// leasesAtOnce: concurrent callers together get exactly as many leases as the limit.
func leasesAtOnce(t *testing.T, s Subject) {
	h := newHolder(t, s)
	const callers, most = 16, 5
	var now, peak atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range s.Steps {
				lease := h.lease(fmt.Sprintf("%d:%d", c, i%3))
				d, err := h.store.Acquire(context.Background(), lease, most, leaseTime)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if !d.Allowed {
					continue
				}
				for n := now.Add(1); ; {
					p := peak.Load()
					if n <= p || peak.CompareAndSwap(p, n) {
						break
					}
				}
				now.Add(-1)
				if err := h.store.Release(context.Background(), []limit.Lease{lease}); err != nil {
					t.Errorf("Release: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if peak.Load() > most {
		t.Errorf("rule broken: there are no more leases than the limit says\n%d of %d were held at once", peak.Load(), most)
	}
	h.expect(0, "all leases can be released")
	var got atomic.Int64
	for i := range 3 * most {
		wg.Go(func() {
			if d, err := h.store.Acquire(context.Background(), h.lease(strconv.Itoa(i)), most, leaseTime); err == nil && d.Allowed {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != most {
		t.Errorf("rule broken: N callers get exactly the limit's leases\n%d of %d were handed out", got.Load(), most)
	}
}

// leaseTimelines compares the store with a model of leases, which is a map of their ends, over
// generated calls and clocks. The clock may be set back, within the tolerance.
func leaseTimelines(t *testing.T, s Subject) {
	has[limit.LeaseStore](t, s)
	rapid.Check(t, func(rt *rapid.T) {
		h := newHolder(t, s)
		ends, latest := map[string]int64{}, s.Clock.instant()
		held := func(besides string) (ids []string) {
			for id, end := range ends {
				if end > s.Clock.instant() && id != besides {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			return ids
		}
		id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		times := rapid.Map(rapid.Int64Range(1, 2*int64(leaseTime/time.Millisecond)), func(ms int64) time.Duration {
			return time.Duration(ms) * time.Millisecond
		})
		ctx := context.Background()
		for range rapid.IntRange(1, min(s.Steps, 20)).Draw(rt, "calls") {
			one, lasts := id.Draw(rt, "lease"), times.Draw(rt, "lease time")
			end := s.Clock.instant() + lasts.Microseconds()
			var err error
			switch call := rapid.SampledFrom([]string{"acquire", "acquire", "renew", "release", "time passes", "clock set back"}).Draw(rt, "call"); call {
			case "acquire":
				most := rapid.Int64Range(1, 4).Draw(rt, "limit")
				others := int64(len(held(one)))
				var d limit.Decision
				if d, err = h.store.Acquire(ctx, h.lease(one), most, lasts); err != nil {
					break
				}
				if d.Allowed != (others < most) || d.Limit != most || d.Remaining != max(0, most-others-1) {
					rt.Fatalf("rule broken: a lease is had if fewer than the limit are held\n%d others of %d are held: %s", others, most, describe(d))
				}
				if d.Allowed {
					ends[one] = end
				}
			case "renew":
				ends[one] = end
				err = h.store.Renew(ctx, h.leases(one), lasts)
			case "release":
				delete(ends, one)
				err = h.store.Release(ctx, h.leases(one))
			case "time passes":
				s.Clock.Advance(times.Draw(rt, "time"))
				latest = max(latest, s.Clock.instant())
			case "clock set back":
				room := time.Duration(s.Clock.instant()-latest)*time.Microsecond + limit.ClockTolerance
				s.Clock.Advance(-min(times.Draw(rt, "by"), room))
			}
			if err != nil {
				rt.Fatalf("rule broken: a valid call gets an answer\n%v", err)
			}
			want := held("")
			n, got, err := h.store.Held(ctx, h.key, 10)
			slices.Sort(got)
			if err != nil || n != int64(len(want)) || !slices.Equal(got, want) {
				rt.Fatalf("rule broken: a lease is held until it is released or its time is over\ngot %q of %d, %v, want %q", got, n, err, want)
			}
		}
	})
}
