package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunk  = 5000 // decisions that are timed together, of each goroutine
	chunks = 8    // of a turn
	// warm is how many decisions without timing begin a turn, because another store used
	// the caches before.
	warm = 100_000
)

// scenario is a number of keys and one goroutine or as many as there are cores.
type scenario struct {
	name     string
	keys     int
	parallel bool
	rivals   []rival
}

var scenarios = []scenario{
	{"serial-1", 1, false, rivals},
	{"serial-10k", 10_000, false, rivals},
	{"serial-100k", 100_000, false, rivals},
	{"serial-1M", million, false, rivals},
	{"parallel-1", 1, true, rivals},
	{"parallel-10k", 10_000, true, rivals},
	{"parallel-100k", 100_000, true, rivals},
	{"parallel-1M", million, true, rivals},
	{"all-1", 10_000, false, []rival{rivals[0], three}},
}

// shuffled returns n keys in random order. Their bytes are in memory in the order of use, so
// that they are in the cache, like a key that was just read from a connection. So the
// benchmark measures the memory accesses of the store, not those of this command.
func shuffled(n int) []string {
	const width = len("user:00000000")
	text := make([]byte, 0, n*width)
	for _, i := range rand.Perm(n) {
		text = fmt.Appendf(text, "user:%08d", i)
	}
	all, keys := string(text), make([]string, n)
	for i := range keys {
		keys[i] = all[i*width : (i+1)*width]
	}
	return keys
}

// turns are the measurement of one store in one scenario.
type turns struct {
	scenario scenario
	rival    string
	keys     []string
	take     func(string) error
	next     []int // of each goroutine, in keys
	samples  []float64
}

// measureTime lets the stores take turns in every scenario, and the scenarios in every
// round, so that a machine that slows down slows all of them.
func measureTime(f figures, s settings) error {
	all, err := prepare(s)
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the decisions leave little garbage
	for round := range s.rounds {
		runtime.GC()
		for _, t := range all {
			if err := t.turn(); err != nil {
				return fmt.Errorf("%s: %s: %w", t.scenario.name, t.rival, err)
			}
		}
		if (round+1)%10 == 0 {
			log.Printf("round %d of %d", round+1, s.rounds)
		}
	}
	for _, t := range all {
		f.add(t.scenario.name, t.rival, quartile(t.samples))
	}
	return nil
}

// prepare opens the stores and lets every key have state.
func prepare(s settings) (all []*turns, err error) {
	type shared struct {
		keys []string
		take map[string]func(string) error
	}
	bySize := map[int]*shared{}
	for _, sc := range scenarios {
		if !s.only.MatchString(sc.name) {
			continue
		}
		sh := bySize[sc.keys]
		if sh == nil {
			sh = &shared{keys: shuffled(sc.keys), take: map[string]func(string) error{}}
			bySize[sc.keys] = sh
		}
		for _, r := range sc.rivals {
			if sh.take[r.name] == nil {
				take, err := r.open()
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.name, err)
				}
				for _, key := range sh.keys {
					if err := take(key); err != nil {
						return nil, fmt.Errorf("%s: %w", r.name, err)
					}
				}
				sh.take[r.name] = take
			}
			t := &turns{scenario: sc, rival: r.name, keys: sh.keys, take: sh.take[r.name], next: make([]int, 1)}
			if sc.parallel {
				t.next = make([]int, runtime.GOMAXPROCS(0))
			}
			for g := range t.next {
				t.next[g] = g * sc.keys / len(t.next)
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// turn times some chunks. Goroutines begin every chunk together, and its time ends with
// the last of them.
func (t *turns) turn() error {
	n := len(t.next)
	var wg sync.WaitGroup
	var arrived [chunks + 1]atomic.Int64
	begin, end := make([][chunks + 1]time.Time, n), make([][chunks + 1]time.Time, n)
	errs := make([]error, n)
	for g := range n {
		wg.Go(func() {
			for c := range chunks + 1 {
				count := chunk
				if c == 0 {
					count = max(chunk, min(warm, 2*t.scenario.keys))
				}
				arrived[c].Add(1)
				for arrived[c].Load() < int64(n) && n > 1 {
					runtime.Gosched()
				}
				begin[g][c] = time.Now()
				if err := t.some(g, count); err != nil {
					errs[g] = err
				}
				end[g][c] = time.Now()
			}
		})
	}
	wg.Wait()
	for g := range n {
		if errs[g] != nil {
			return errs[g]
		}
	}
	for c := 1; c <= chunks; c++ {
		first, last := begin[0][c], end[0][c]
		for g := range n {
			if begin[g][c].Before(first) {
				first = begin[g][c]
			}
			if end[g][c].After(last) {
				last = end[g][c]
			}
		}
		t.samples = append(t.samples, float64(last.Sub(first).Nanoseconds())/float64(chunk*n))
	}
	return nil
}

// some makes decisions, each for the next key.
func (t *turns) some(g, count int) (failed error) {
	keys, take, i := t.keys, t.take, t.next[g]
	for range count {
		if err := take(keys[i]); err != nil {
			failed = err
		}
		if i++; i == len(keys) {
			i = 0
		}
	}
	t.next[g] = i
	return failed
}

// quartile is the lower quartile: other programs on the machine make samples larger, and the
// smallest one may be an outlier, too.
func quartile(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return s[len(s)/4]
}
