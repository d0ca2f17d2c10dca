package table

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// charge adds to the instant of a key as a store does: without a lock where that
// is possible.
func charge(t *Table, key string, at, fraction, now int64) {
	h := t.Hash(key)
	if i, was, f, ok := t.Instant(h); ok && f+fraction <= MaxFraction && i.Swap(was+at, f+fraction) {
		return
	}
	r := t.Lock(h)
	defer r.Unlock()
	if s := r.State(); s != nil {
		s[0], s[1] = s[0]+at, s[1]+fraction
		r.SetExpires(0)
		return
	}
	t.Insert(r, h, []int64{now + at, fraction}, 0, now)
}

// Instants and fractions of any size are found again, with and without a lock,
// until they have passed.
func TestInstantsAgainstMap(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tab := New(Options{Instants: true, Max: 1000, Shards: 1 + int(seed%3)})
		model := map[string][2]int64{}
		now := 1000 * second
		for step := range 20_000 {
			now += rng.Int64N(second / 10)
			key := fmt.Sprint(rng.IntN(400))
			switch want, ok := model[key]; {
			case ok && want[0] >= now && rng.IntN(3) > 0:
				got := get(tab, key)
				if got == nil || [2]int64(got) != want {
					t.Fatalf("seed %d, step %d: key %s has state %v, want %v", seed, step, key, got, want)
				}
				_, at, fraction, free := tab.Instant(tab.Hash(key))
				if free != (want[1] <= MaxFraction) || free && [2]int64{at, fraction} != want {
					t.Fatalf("seed %d, step %d: key %s is at %d, %d, free %v; want %v", seed, step, key, at, fraction, free, want)
				}
			case ok && rng.IntN(9) == 0:
				h := tab.Hash(key)
				r := tab.Lock(h)
				tab.Delete(r, h)
				r.Unlock()
				delete(model, key)
			case get(tab, key) == nil:
				if ok && want[0] >= now {
					t.Fatalf("seed %d, step %d: key %s is lost before its instant", seed, step, key)
				}
				model[key] = [2]int64{now, 0}
				fallthrough
			default:
				by := [2]int64{rng.Int64N(20 * second), rng.Int64N(MaxFraction)}
				charge(tab, key, by[0], by[1], now)
				model[key] = [2]int64{model[key][0] + by[0], model[key][1] + by[1]}
			}
		}
		if tab.Evicted() == 0 {
			t.Errorf("seed %d: nothing was ever evicted", seed)
		}
	}
}

// Charges without a lock are never lost while other keys are inserted and removed,
// the shard is rebuilt, and other goroutines lock the key.
func TestSwapsAreNotLost(t *testing.T) {
	const hot, each = 4, 20_000
	tab := New(Options{Instants: true, Max: 1 << 20, Shards: 1})
	var clock atomic.Int64
	clock.Store(1000 * second)
	far := 2000 * second
	for k := range hot {
		charge(tab, fmt.Sprint("hot", k), far, 0, 0)
	}
	var chargers, others sync.WaitGroup
	var done atomic.Bool
	for g := range 4 {
		chargers.Go(func() {
			for i := range each {
				charge(tab, fmt.Sprint("hot", (g+i)%hot), 1, 0, 0)
			}
		})
	}
	others.Go(func() { // come and go
		for i := 0; !done.Load(); i++ {
			now := clock.Add(second / 100)
			charge(tab, fmt.Sprint(i), second, 0, now)
		}
	})
	others.Go(func() { // lock several, add a key and take it away again
		var l Locks
		for !done.Load() {
			a, b := tab.Hash("hot0"), tab.Hash("new")
			l.Add(tab, a)
			l.Add(tab, b)
			l.Lock()
			r := tab.At(a)
			before := r.State()[0]
			now := clock.Load()
			tab.Insert(tab.At(b), b, []int64{far, 0}, 0, now)
			if _, _, _, free := tab.Instant(b); free {
				t.Error("a key that was added under a lock is free before its end")
			}
			if after := tab.At(a).State()[0]; after != before {
				t.Errorf("a key changed while it was locked: %d, then %d", before, after)
			}
			tab.Delete(tab.At(b), b)
			l.Unlock()
		}
	})
	chargers.Wait()
	done.Store(true)
	others.Wait()
	for k := range hot {
		if got, want := get(tab, fmt.Sprint("hot", k))[0], far+each; got != want {
			t.Errorf("key %d is at %d, %d of %d charges are lost", k, got, want-got, each)
		}
	}
}
