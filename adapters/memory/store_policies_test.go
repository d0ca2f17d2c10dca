package memory_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

var policies = map[string]limit.Policy{
	"bucket":    perSecond(1e6, 1e6),
	"pacer":     limit.Pacer{Burst: 1e6, Refill: 1e6, Per: time.Second, MaxWait: time.Second},
	"fixed":     limit.FixedWindow{Limit: 1e6, Window: time.Hour},
	"sliding":   limit.SlidingWindow{Limit: 1e6, Window: time.Minute, Buckets: 10},
	"many":      limit.SlidingWindow{Limit: 1e6, Window: time.Hour, Buckets: 100},
	"log":       limit.SlidingLog{Limit: 100, Window: time.Hour},
	"composite": limit.All(perSecond(1e6, 1e6), limit.FixedWindow{Limit: 1e6, Window: time.Hour}, limit.SlidingWindow{Limit: 1e6, Window: time.Minute}),
	"with log":  limit.All(perSecond(1e6, 1e6), limit.SlidingLog{Limit: 100, Window: time.Hour}),
}

// Once a key is known, no policy allocates, allowed or denied; a log does while
// it grows.
func TestNoPolicyAllocates(t *testing.T) {
	s := memory.NewStore()
	key := []byte("wskit:chat:u:acme:ann:chat.send")
	for name, p := range policies {
		plan := compile(t, p)
		for range 100 {
			s.Take(ctx, key, plan, 1)
		}
		if n := testing.AllocsPerRun(200, func() { s.Take(ctx, key, plan, 1) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Whatever the policy, a flood of keys takes bounded memory: MaxKeys
// counts wider states for more, and logs cannot grow beyond it together.
func TestFloodOfWideStates(t *testing.T) {
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			clock := limittest.NewClock()
			plan := compile(t, p)
			before := heap()
			s := memory.NewStore(memory.Options{MaxKeys: 10_000, Now: clock.Now})
			for i := range 40_000 {
				s.Take(ctx, fmt.Append(nil, "flood", i%20_000), plan, 1)
			}
			more := 10_000
			if plan.Width() == 0 {
				more = 100_000
			}
			for i := range more { // what has room grows
				s.Take(ctx, fmt.Append(nil, "flood", i%2000), plan, 1)
				clock.Advance(time.Microsecond)
			}
			// 54 bytes for each of MaxKeys, the shards, and 256 states that are shared.
			if grown := int64(heap()) - int64(before); grown > 10_000*64+256*(16+8*104)+300_000 {
				t.Errorf("%d bytes", grown)
			}
			runtime.KeepAlive(s)
		})
	}
}

// A log without room to grow becomes stricter, never looser, and still limits.
func TestLogsWithoutRoomAreStricter(t *testing.T) {
	clock := limittest.NewClock()
	s := memory.NewStore(memory.Options{MaxKeys: 20, Now: clock.Now})
	plan := compile(t, limit.SlidingLog{Limit: 10, Window: time.Minute})
	for i := range 30 {
		s.Take(ctx, fmt.Append(nil, "fills", i), plan, 1)
	}
	var admitted []int64
	for range 5000 {
		if d, _ := s.Take(ctx, []byte("fills0"), plan, 1); d.Allowed {
			admitted = append(admitted, clock.Now().UnixMicro())
		}
		clock.Advance(777 * time.Millisecond)
	}
	for i := 10; i < len(admitted); i++ {
		if admitted[i]-admitted[i-10] < time.Minute.Microseconds() {
			t.Fatalf("11 admitted in %d µs", admitted[i]-admitted[i-10])
		}
	}
	if len(admitted) < 300 {
		t.Errorf("only %d admitted in an hour", len(admitted))
	}
}

// When there is no room, what is taken together is still all or none.
func TestTakeAllWithoutRoom(t *testing.T) {
	s := memory.NewStore(memory.Options{MaxKeys: 1})
	plan := compile(t, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour})
	s.Take(ctx, []byte("fills the store"), plan, 1)
	charged := int64(0)
	for i := range 3000 {
		asks := []limit.Ask{
			{Key: fmt.Append(nil, "a", i), Policy: plan, Cost: 1}, {Key: fmt.Append(nil, "b", i), Policy: plan, Cost: 1},
		}
		bound, err := s.TakeAll(ctx, asks)
		if err != nil {
			t.Fatal(err)
		}
		if asks[bound].Decision.Allowed {
			charged += asks[0].Decision.Charged + asks[1].Decision.Charged
		} else if asks[0].Decision.Charged+asks[1].Decision.Charged != 0 {
			t.Fatalf("denied, and charged: %+v", asks)
		}
	}
	if charged > 256*2 || charged < 256 {
		t.Errorf("%d were charged to 256 shared states of 2", charged)
	}
	if st := s.Stats(); st.Overflowed == 0 || st.Keys > 1 {
		t.Errorf("%+v", st)
	}
}

// A flood from a key that has used nothing yet, beneath a limit that others have
// drained or of a cost that never fits, makes no state: there is none to undo.
func TestDeniedTogetherAllocatesNothing(t *testing.T) {
	drained := compile(t, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour})
	for name, p := range policies {
		s, plan := memory.NewStore(), compile(t, p)
		s.Take(ctx, []byte("tenant"), drained, 1)
		for what, last := range map[string]limit.Ask{
			"drained":    {Key: []byte("tenant"), Policy: drained, Cost: 1},
			"impossible": {Key: []byte("another tenant"), Policy: drained, Cost: 2},
		} {
			var asks []limit.Ask
			for i := range 20 {
				asks = append(asks, limit.Ask{Key: fmt.Append(nil, "user", i), Policy: plan, Cost: 1})
			}
			asks = append(asks, last)
			n := testing.AllocsPerRun(200, func() {
				if bound, err := s.TakeAll(ctx, asks); err != nil || bound != 20 || asks[0].Decision.RetryAfter != 0 {
					t.Fatalf("%s, %s: bound %d, %v", name, what, bound, err)
				}
			})
			if n != 0 && name != "many" && !race.Enabled { // whose 100 words are too many for the stack
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
			if st := s.Stats(); st.Keys != 1 {
				t.Errorf("%s, %s: %d keys, want the tenant's alone", name, what, st.Keys)
			}
		}
	}
}

// What is undone ends as it began, also a key that was charged twice.
func TestUndoOfOneKeyTwice(t *testing.T) {
	s := memory.NewStore()
	for name, p := range policies {
		plan := compile(t, p)
		s.Take(ctx, []byte(name), plan, 7)
		before, _ := s.Peek(ctx, []byte(name), plan, 1)
		one := limit.Ask{Key: []byte(name), Policy: plan, Cost: 3}
		never := limit.Ask{Key: []byte("never"), Policy: plan, Cost: 1 << 50}
		asks := []limit.Ask{one, one, one, never}
		if bound, err := s.TakeAll(ctx, asks); err != nil || bound != 3 || asks[0].Decision.Charged != 0 {
			t.Errorf("%s: bound %d, %v", name, bound, err)
		}
		if after, _ := s.Peek(ctx, []byte(name), plan, 1); after.Limit-after.Remaining > before.Limit-before.Remaining {
			t.Errorf("%s: %d left before, %d after", name, before.Remaining, after.Remaining)
		}
	}
}

// crowd makes the store look through its entries for expired ones.
func crowd(t *testing.T, s memory.Store, plan *limit.Plan) {
	for i := range 20_000 {
		s.Take(ctx, fmt.Append(nil, "crowd", i), plan, 1)
	}
}

// An entry lives as long as what was used of it, however often and
// under whichever policy it was used.
func TestEntriesLiveToTheirEnd(t *testing.T) {
	slow := limit.TokenBucket{Capacity: 1000, Refill: 1000, Per: time.Hour}
	for name, p := range map[string]limit.Policy{
		"bucket": slow, "log": limit.SlidingLog{Limit: 1000, Window: time.Hour}, "sliding": limit.SlidingWindow{Limit: 1000, Window: time.Hour, Buckets: 3},
		"composite": limit.All(slow, limit.TokenBucket{Capacity: 1000, Refill: 1000, Per: time.Second}),
		"with log":  limit.All(slow, limit.SlidingLog{Limit: 1000, Window: time.Second}),
	} {
		clock := limittest.NewClock()
		s := memory.NewStore(memory.Options{Now: clock.Now})
		plan := compile(t, p)
		s.Take(ctx, []byte("k"), plan, 1)
		s.Take(ctx, []byte("k"), plan, 999)
		clock.Advance(5 * time.Minute)
		crowd(t, s, plan)
		if d, _ := s.Take(ctx, []byte("k"), plan, 1000); d.Allowed {
			t.Errorf("%s: the state was forgotten", name)
		}
	}
}

// A composite of which one part had to be healed lives as long as the others.
func TestHealedCompositeLivesToItsEnd(t *testing.T) {
	clock := limittest.NewClock()
	s := memory.NewStore(memory.Options{Now: clock.Now})
	plan := compile(t, limit.All(
		limit.TokenBucket{Capacity: 1000, Refill: 1000, Per: time.Hour}, limit.FixedWindow{Limit: 1000, Window: time.Second},
	))
	s.Take(ctx, []byte("k"), plan, 500)
	clock.Advance(-10 * time.Minute)
	if d, _ := s.Take(ctx, []byte("k"), plan, 1); d.Allowed {
		t.Fatal("the window was not healed")
	}
	clock.Advance(5 * time.Minute)
	crowd(t, s, plan)
	if d, _ := s.Take(ctx, []byte("k"), plan, 900); d.Allowed {
		t.Error("the bucket was forgotten with the window")
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
