package memory_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

var ctx = context.Background()

func TestStore(t *testing.T) {
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{Store: memory.NewStore(memory.Options{Now: clock.Now}), Clock: clock}
	})
}

func perSecond(capacity, refill int64) limit.TokenBucket {
	return limit.TokenBucket{Capacity: capacity, Refill: refill, Per: time.Second}
}

// The store's own clock is the process's, so real time passes here.
func TestOwnClock(t *testing.T) {
	s := memory.NewStore()
	p := limit.TokenBucket{Capacity: 1, Refill: 1, Per: 20 * time.Millisecond}
	var d limit.Decision
	for d.Allowed = true; d.Allowed; { // each time when more than 20 ms have passed since the last one
		d, _ = s.Take(ctx, []byte("k"), p, 1)
	}
	if d.RetryAfter > 20*time.Millisecond {
		t.Fatalf("%+v", d)
	}
	poll.Until(t, "the store to admit again", func() bool {
		d, _ := s.Take(ctx, []byte("k"), p, 1)
		return d.Allowed
	})
}

func TestBytesAndStringAreOneKey(t *testing.T) {
	s := memory.NewStore()
	s.Take(ctx, []byte("k"), perSecond(1, 1), 1)
	if d, err := s.Take(ctx, []byte("k"), perSecond(1, 1), 1); err != nil || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := s.Take(ctx, []byte("k"), perSecond(1, 1), 0); err == nil {
		t.Error("cost 0 is accepted")
	}
}

// Beyond MaxKeys, new keys share a bounded number of states; keys
// that have state keep it; the flood shows in the figures.
func TestKeyFlood(t *testing.T) {
	clock := limittest.NewClock()
	s := memory.NewStore(memory.Options{MaxKeys: 1000, Now: clock.Now})
	plan := compile(t, limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour})
	for range 10 {
		s.Take(ctx, []byte("mine"), plan, 1)
	}
	admitted := 0
	const flood = 100_000
	for i := range flood {
		if d, _ := s.Take(ctx, fmt.Append(nil, "flood", i), plan, 1); d.Allowed {
			admitted++
		}
	}
	if d, _ := s.Take(ctx, []byte("mine"), plan, 1); d.Allowed {
		t.Error("the flood reset the limit of a key that was there before")
	}
	if most := 999 + 1000*54/2/8*10; admitted > most {
		t.Errorf("%d of %d admitted; a state each for 999 keys and shared ones of 10, of 8 bytes each in half of what 1000 keys take, admit %d", admitted, flood, most)
	}
	st := s.Stats()
	if st.Keys > 1000 || st.Overflowed != flood-999 || st.Evicted != 0 {
		t.Errorf("%+v", st)
	}

	// Once everything has run out, new keys have states of their own again.
	clock.Advance(24 * time.Hour)
	for i := range 2000 {
		s.Take(ctx, fmt.Append(nil, "later", i%500), plan, 1)
	}
	if now := s.Stats(); now.Evicted == 0 || now.Overflowed-st.Overflowed > 100 {
		t.Errorf("a day later: %+v, before: %+v", now, st)
	}
}

// Limiters do not share overflow states.
func TestOverflowIsPerLimiter(t *testing.T) {
	s := memory.NewStore(memory.Options{MaxKeys: 1})
	policy := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	a, b := limit.New(s, policy), limit.New(s, policy)
	a.Take(ctx, limit.KeyOf("fills the store"), 1)
	for i := range 5000 {
		a.Take(ctx, limit.KeyOf(fmt.Sprint(i)), 1) // uses up all of a's shared states
	}
	if d, _ := a.Take(ctx, limit.KeyOf("new"), 1); d.Allowed {
		t.Error("the flooded limiter admits a new key")
	}
	if d, _ := b.Take(ctx, limit.KeyOf("new"), 1); !d.Allowed {
		t.Error("a flood of one limiter used up another's shared states")
	}
}

// A denial leaves no trace: it neither makes state nor keeps it.
func TestDenialsTakeNoMemory(t *testing.T) {
	s := memory.NewStore()
	for i := range 1000 {
		s.Take(ctx, fmt.Append(nil, i), perSecond(1, 1), 2) // impossible
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys", n)
	}
}

func TestDecisionsAllocateNothing(t *testing.T) {
	s := memory.NewStore()
	key := []byte("wskit:chat:u:acme:ann:chat.send")
	for name, plan := range map[string]*limit.Plan{
		"allowed": compile(t, perSecond(1e9, 1e9)), "denied": compile(t, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}),
	} {
		s.Take(ctx, key, plan, 1)
		if n := testing.AllocsPerRun(1000, func() { s.Take(ctx, key, plan, 1) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestBytesPerKey bounds the memory of many keys, as documented at
// Options.MaxKeys.
func TestBytesPerKey(t *testing.T) {
	const n = 250_000
	plan := compile(t, limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := memory.NewStore()
	key := make([]byte, 0, 32)
	for i := range int64(n) {
		key = strconv.AppendInt(append(key[:0], "user:"...), i, 10)
		s.Take(ctx, key, plan, 1)
	}
	perKey := float64(heap()-before) / n
	t.Logf("%.1f bytes per key", perKey)
	if perKey > 54 {
		t.Errorf("%.1f bytes per key, more than the 54 that are documented", perKey)
	}
	runtime.KeepAlive(s)
}

func TestNegativeMaxKeysPanics(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "MaxKeys") {
			t.Errorf("panic %q", text)
		}
	}()
	memory.NewStore(memory.Options{MaxKeys: -1})
}
