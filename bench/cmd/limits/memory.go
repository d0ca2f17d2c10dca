package main

import (
	"fmt"
	"runtime"
)

const million = 1_000_000

// measureMemory measures what a million keys take of the heap and whether a decision
// for a key that is known allocates.
func measureMemory(f figures) error {
	for _, r := range rivals {
		take, err := r.open()
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		before := heap()
		for i := range million {
			// The key comes from a frame of its own; a store that keeps it keeps its bytes.
			if err := take(fmt.Sprintf("user:%08d", i)); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		after := heap()
		f.add("bytes", r.name, float64(after.HeapAlloc-before.HeapAlloc)/million)

		const n = 100_000
		for range n {
			if err := take("user:00000000"); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.add("allocations", r.name, float64((m.Mallocs-after.Mallocs)/n))
		runtime.KeepAlive(take)
	}
	return nil
}

// heap collects the garbage and returns the size of the heap.
func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what the first one's sweep frees
	runtime.ReadMemStats(&m)
	return m
}
