package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

const second = int64(1e6)

// get returns the state of a key, or nil.
func get(t *Table, key string) []int64 {
	r := t.Lock(t.Hash(key))
	defer r.Unlock()
	return append([]int64(nil), r.State()...)
}

// put stores state under a key.
func put(t *Table, key string, state []int64, expires, now int64) bool {
	h := t.Hash(key)
	r := t.Lock(h)
	defer r.Unlock()
	if s := r.State(); s != nil {
		copy(s, state)
		r.SetExpires(expires)
		return true
	}
	return t.Insert(r, h, state, expires, now)
}

// TestAgainstMap runs random operations on a table and on a map and compares them after
// each. There is one shard, so that probing, deleting and growing interact.
func TestAgainstMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tab := New(Options{Width: 1 + int(seed%5), Max: 1000, Shards: 1 + int(seed%3)})
		type entry struct {
			value   int64
			expires int64
		}
		model := map[string]entry{}
		now := 1000 * second
		for step := range 20_000 {
			now += rng.Int64N(second / 10)
			key := fmt.Sprint(rng.IntN(400))
			switch op := rng.IntN(10); {
			case op < 6:
				e := entry{rng.Int64(), now + rng.Int64N(20*second)}
				state := make([]int64, tab.Width())
				for i := range state {
					state[i] = e.value + int64(i)
				}
				if !put(tab, key, state, e.expires, now) {
					t.Fatalf("seed %d, step %d: the table is full with %d entries", seed, step, tab.Len())
				}
				model[key] = e
			case op < 7:
				h := tab.Hash(key)
				r := tab.Lock(h)
				tab.Delete(r, h)
				r.Unlock()
				delete(model, key)
			default:
				state := get(tab, key)
				e, ok := model[key]
				if state == nil && ok && e.expires > now {
					t.Fatalf("seed %d, step %d: key %s is lost %d µs before it expires", seed, step, key, e.expires-now)
				}
				if state != nil && (!ok || state[0] != e.value || state[len(state)-1] != e.value+int64(len(state)-1)) {
					t.Fatalf("seed %d, step %d: key %s has state %v, want %v", seed, step, key, state, e)
				}
			}
		}
		for key, e := range model {
			if state := get(tab, key); e.expires > now && (state == nil || state[0] != e.value) {
				t.Errorf("seed %d: key %s has state %v at the end, want %v", seed, key, state, e)
			}
		}
		if tab.Evicted() == 0 {
			t.Errorf("seed %d: nothing was ever evicted", seed)
		}
	}
}

// A flood of new keys takes bounded memory and evicts no entry that has not
// expired.
func TestFloodEvictsOnlyExpiredEntries(t *testing.T) {
	tab := New(Options{Width: 2, Max: 5000, Shards: 16})
	now := 1000 * second
	for i := range 1000 {
		put(tab, fmt.Sprint("live", i), []int64{int64(i), 1}, now+3600*second, now)
	}
	refused := 0
	for i := range 50_000 {
		if !put(tab, fmt.Sprint("flood", i), []int64{1, 1}, now+3600*second, now) {
			refused++
		}
	}
	if tab.Len() != 5000 || refused != 46_000 {
		t.Errorf("%d entries, %d refused", tab.Len(), refused)
	}
	for i := range 1000 {
		if s := get(tab, fmt.Sprint("live", i)); s == nil || s[0] != int64(i) {
			t.Fatalf("entry %d has state %v", i, s)
		}
	}
}

// Expired entries free capacity, also those of shards that get no new keys, and the
// memory of a flood is freed.
func TestExpiredEntriesFreeCapacity(t *testing.T) {
	tab := New(Options{Width: 2, Max: 10_000, Shards: 16})
	now := 1000 * second
	for i := range 20_000 {
		put(tab, fmt.Sprint("flood", i), []int64{1, 1}, now+second, now)
	}
	most := tab.slots()
	now += 3 * second
	for i := range 1000 {
		if !put(tab, fmt.Sprint("new", i), []int64{1, 1}, now+3600*second, now) && i > 200 {
			t.Fatalf("key %d does not fit beside %d entries, all but %d of them expired", i, tab.Len(), i)
		}
	}
	for i := range 20_000 {
		put(tab, fmt.Sprint("short", i), []int64{1, 1}, now, now)
	}
	if left := tab.slots(); left > most/2 {
		t.Errorf("%d slots after the flood of %d", left, most)
	}
}

// An entry is kept until its expiry and, with a grace, for that much longer.
func TestGrace(t *testing.T) {
	const expires = 1000*second + 1
	for _, grace := range []int64{0, 60 * second} {
		for _, c := range []struct {
			now   int64
			lives bool
		}{{expires, true}, {1001*second - 1 + grace, true}, {1001*second + grace, false}} {
			if expired(expirySeconds(expires), c.now, grace) == c.lives {
				t.Errorf("grace %d: at %d the entry of %d is kept: %v", grace, c.now, int64(expires), !c.lives)
			}
		}
	}
	for _, micros := range []int64{math.MaxInt64, 1 << 53, math.MaxUint32 * second} {
		if expired(expirySeconds(micros), math.MaxInt64, 0) {
			t.Errorf("an expiry of %d is lost", micros)
		}
	}
	if expirySeconds(-5) < 1 || expirySeconds(0) < 1 {
		t.Error("an early expiry makes the slot a free one")
	}
}

func TestConcurrentUse(t *testing.T) {
	tab := New(Options{Width: 2, Max: 500, Shards: 4})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range int64(5000) {
				put(tab, fmt.Sprint(g, i%100), []int64{i, i}, i*second, i*second)
				if s := get(tab, fmt.Sprint(g, i%100)); s != nil && (s[0] != i || s[1] != i) {
					t.Errorf("%v, want %d", s, i)
				}
			}
		})
	}
	wg.Wait()
	if n := tab.Len(); n < 0 || n > 500 {
		t.Errorf("%d entries", n)
	}
}

func (t *Table) slots() (n int) {
	for i := range t.shards {
		n += int(t.shards[i].run.Load().n)
	}
	return n
}
