package limittest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/limit"
)

// keysAreApart: different keys have different limits, whatever bytes they have.
func keysAreApart(t *testing.T, s Subject) {
	s.Clock.set(epoch)
	b := perSecond(1, 1)
	base := fmt.Sprintf("apart:%d:", keys.Add(1))
	names := []string{
		"a", "b", "A", "a:", ":a", "a:b", "a::b", "a%3Ab", "a b", "a\x00", "a\x00b", "*", "?", "[a]", "{a}", "a{b}", "\\",
		"ä", "a\u0308", "\xff", "\xfe", "%none", "none", "anon", "0", "00", "1e0", " a", "a ",
		strings.Repeat("x", 500), strings.Repeat("x", 501), strings.Repeat("x", 499) + "y",
	}
	for _, name := range names {
		d, err := s.Store.Take(context.Background(), []byte(base+name), b, 1)
		if err != nil || !d.Allowed {
			t.Fatalf("rule broken: different keys have different limits\nkey %q was never used and is answered %s (error %v)", name, describe(d), err)
		}
	}
	for _, name := range names {
		if d, err := s.Store.Take(context.Background(), []byte(base+name), b, 1); err != nil || d.Allowed {
			t.Fatalf("rule broken: a key finds its own state\nkey %q was used up and is answered %s (error %v)", name, describe(d), err)
		}
	}
}

// limitersAreApart: two limiters on one store share state only if they share a name.
func limitersAreApart(t *testing.T, s Subject) {
	s.Clock.set(epoch)
	b := perSecond(1, 1)
	n := keys.Add(1)
	limiter := func(name string) *limit.Limiter { // which asks the store alone, however slow it is
		return limit.New(s.Store, b, limit.Options{Name: fmt.Sprintf("%s-%d", name, n), Timeout: -1, OnFailure: limit.FailClosed})
	}
	one, two, same := limiter("one"), limiter("two"), limiter("one")
	for _, c := range []struct {
		limiter *limit.Limiter
		allowed bool
	}{{one, true}, {one, false}, {two, true}, {same, false}} {
		d, err := c.limiter.Take(context.Background(), limit.KeyOf("ann"), 1)
		if err != nil || d.Allowed != c.allowed {
			t.Fatalf("rule broken: limiters share state exactly when they share a name\nlimiter %s: %s, error %v; want allowed = %v",
				c.limiter.Name(), describe(d), err, c.allowed)
		}
	}
}

// concurrency: any number of callers on one key are admitted exactly what one
// caller would be.
func concurrency(t *testing.T, s Subject) {
	s.Clock.set(epoch)
	const callers = 32
	each := max(s.Steps/4, 10)
	b := perSecond(int64(callers*each/2), 1)
	base := fmt.Sprintf("concurrency:%d:", keys.Add(1))
	var admitted [4]atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each * len(admitted) {
				k := (i + j) % len(admitted)
				d, err := s.Store.Take(context.Background(), fmt.Append(nil, base, k), b, 1)
				if err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				if d.Allowed {
					admitted[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range admitted {
		if got := admitted[k].Load(); got != b.Capacity {
			t.Errorf("rule broken: N callers on one key are admitted what one would be\nkey %d: %d admitted of a capacity of %d, %d asked",
				k, got, b.Capacity, callers*each)
		}
	}
}
