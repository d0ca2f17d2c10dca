package metrics

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
)

// together runs f in eight goroutines.
func together(f func(i int)) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// Whatever keys come, each that is known has its own figure, all others have one together, and nothing is lost.
func TestKeysAreCounted(t *testing.T) {
	t.Parallel()
	k := NewKeyed([]string{"a", "b", "c"})
	together(func(i int) {
		for n := range 1000 {
			k.Add([]string{"a", "b", fmt.Sprint(i, n)}[n%3])
		}
	})
	if got := k.Snapshot("other"); !maps.Equal(got, map[string]int64{"a": 8 * 334, "b": 8 * 333, "other": 8 * 333}) {
		t.Errorf("%v", got)
	}
}

// Messages are counted once, under their outcome, whether they are counted one by one or in batches; the time of those
// that have reached their handler is, too.
func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	var types [2]Type
	for i := range types {
		types[i].Init()
	}
	var waits Waits
	together(func(i int) {
		b := Batch{Stripe: uint8(i)}
		for n := range 1200 {
			outcome := []errors.Code{OK, OK, errors.NotFound, "MINE"}[n%4]
			switch n % 3 {
			case 0:
				types[0].Add(outcome)
			case 1:
				types[0].AddHandled(outcome, uint8(i), time.Millisecond, time.Second, &waits)
			case 2:
				b.Add(&types[n/3%2], outcome, time.Millisecond, time.Second, &waits)
			}
			if n%100 == 0 {
				b.Move(&waits)
			}
		}
		b.Move(&waits)
		b.Move(&waits)
	})
	total := make(map[errors.Code]int64)
	var handled int64
	for i := range types {
		outcomes, handling := types[i].Snapshot()
		for code, n := range outcomes {
			total[code] += n
		}
		handled += handling.Count()
		if sum := outcomes[OK] + outcomes[errors.NotFound] + outcomes[Other]; sum != []int64{8 * 1000, 8 * 200}[i] {
			t.Errorf("type %d has %d messages: %v", i, sum, outcomes)
		}
	}
	if !maps.Equal(total, map[errors.Code]int64{OK: 8 * 600, errors.NotFound: 8 * 300, Other: 8 * 300}) {
		t.Errorf("%v", total)
	}
	if waited := waits.Snapshot(); handled != 8*800 || waited.Count() != 8*800 {
		t.Errorf("the times of %d and %d messages were counted", handled, waited.Count())
	}
}

// Names of limiters may be of any number: few have a figure of their own, and nothing is lost.
func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	var l Limits
	together(func(int) {
		for n := range 300 {
			l.Add(&errors.LimitExceeded{Limiter: fmt.Sprint(n / 2), Kind: errors.LimitKind(fmt.Sprint(n % 2))})
		}
	})
	figures, sum := 0, int64(0)
	l.Each(func(limiter string, kind errors.LimitKind, n int64) {
		figures++
		if sum += n; limiter != Others && n != 8 {
			t.Errorf("%s, %s has %d", limiter, kind, n)
		}
	})
	if figures != maxLimits || sum != 8*300 {
		t.Errorf("%d figures, %d rejections", figures, sum)
	}
}

// Who waits goes on when nothing is under way, or when its time is over.
func TestWhatIsUnderWayIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f InFlight
		if err := f.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		f.Add(2)
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := f.Wait(short); err != context.DeadlineExceeded {
			t.Errorf("out of time: %v", err)
		}
		var ended atomic.Int64
		for range 2 {
			go func() {
				if f.Wait(context.Background()) == nil {
					ended.Add(1)
				}
			}()
		}
		synctest.Wait()
		f.Add(-1)
		synctest.Wait()
		if ended.Load() != 0 || f.Count() != 1 {
			t.Errorf("%d went on with %d under way", ended.Load(), f.Count())
		}
		f.Add(-1)
		synctest.Wait()
		if ended.Load() != 2 {
			t.Errorf("%d of 2 went on", ended.Load())
		}
		f.Add(1)
		go func() { _ = f.Wait(context.Background()); ended.Add(1) }()
		synctest.Wait()
		if ended.Load() != 2 {
			t.Error("it did not wait again")
		}
		f.Add(-1)
	})
}
