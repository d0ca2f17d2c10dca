package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// States that vary in length are found after slots have moved, and their capacity
// is freed.
func TestWordsAgainstMap(t *testing.T) {
	space := NewSpace(100_000)
	tab := New(Options{Variable: true, Space: space, Shards: 2})
	rng := rand.New(rand.NewPCG(1, 1))
	model := map[string][]int64{}
	expires := map[string]int64{}
	now := 1000 * second
	for step := range 30_000 {
		now += rng.Int64N(second / 100)
		key := fmt.Sprint(rng.IntN(300))
		h := tab.Hash(key)
		r := tab.Lock(h)
		if want, ok := model[key]; ok && expires[key] > now && !slices.Equal(r.Words(), want) {
			t.Fatalf("step %d: key %s has %v, want %v", step, key, r.Words(), want)
		}
		switch {
		case rng.IntN(10) == 0:
			tab.Delete(r, h)
			delete(model, key)
		case r.Found():
			state := append(r.Words(), int64(step))
			if len(state) > 40 {
				state = slices.Delete(state, 0, 30)
			}
			r.SetWords(state)
			expires[key] = now + rng.Int64N(5*second)
			r.SetExpires(expires[key])
			model[key] = slices.Clone(state)
		default:
			expires[key] = now + rng.Int64N(5*second)
			if !tab.InsertWords(r, h, []int64{1, int64(step)}, expires[key], now) {
				t.Fatal("the table is full")
			}
			model[key] = []int64{1, int64(step)}
		}
		r.Unlock()
	}
	for i := range 300 {
		h := tab.Hash(fmt.Sprint(i))
		r := tab.Lock(h)
		tab.Delete(r, h)
		r.Unlock()
	}
	if space.Used() != 0 || tab.Len() != 0 {
		t.Errorf("after all keys were removed %d units of capacity are used by %d keys", space.Used(), tab.Len())
	}
}

// Tables of one space have one bound, and an entry that expires in one frees
// capacity for another.
func TestSpaceBoundsItsTables(t *testing.T) {
	space := NewSpace(1000)
	narrow := New(Options{Width: 2, Space: space, Shards: 4})
	wide := New(Options{Width: 10, Space: space, Shards: 4})
	logs := New(Options{Variable: true, Space: space, Shards: 4})
	now := 1000 * second
	for i := range 3000 {
		put(narrow, fmt.Sprint(i), []int64{1, 1}, now+second, now)
		put(wide, fmt.Sprint(i), make([]int64, 10), now+second, now)
		h := logs.Hash(fmt.Sprint(i))
		r := logs.Lock(h)
		logs.InsertWords(r, h, []int64{1, 2, 3}, now+second, now)
		r.Unlock()
	}
	if n := space.Used(); n > 1000+1 {
		t.Errorf("%d units of 1000 are used", n)
	}
	now += 3 * second
	fits := 0
	for i := range 1000 {
		if put(wide, fmt.Sprint("new", i), make([]int64, 10), now+second, now) {
			fits++
		}
	}
	if fits < 250 { // each takes a third of the capacity
		t.Errorf("%d wide keys fit after everything has expired", fits)
	}
}

// Locks of several keys never deadlock, in whatever order the keys were added.
func TestLocks(t *testing.T) {
	space := NewSpace(1000)
	a := New(Options{Width: 2, Space: space, Shards: 2})
	b := New(Options{Width: 1, Space: space, Shards: 2})
	var wg sync.WaitGroup
	n := 0
	for g := range 8 {
		wg.Go(func() {
			var l Locks
			for i := range 2000 {
				first, second := a, b
				if g%2 == 0 {
					first, second = b, a
				}
				l.Add(first, first.Hash(fmt.Sprint(i%7)))
				l.Add(second, second.Hash(fmt.Sprint(i%5)))
				l.Add(a, a.Hash("counts"))
				l.Lock()
				n++
				l.Unlock()
			}
		})
	}
	wg.Wait()
	if n != 16_000 {
		t.Errorf("%d steps, want 16000: some ran concurrently", n)
	}
}
