package router

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

// All work that waits gets a turn, whenever it comes, and what gives the turns ends when none waits.
func TestAllWorkGetsATurn(t *testing.T) {
	t.Parallel()
	for _, sockets := range []bool{false, true} {
		var p pacer
		var has atomic.Bool
		has.Store(sockets)
		p.init(&has, nil)
		for range 3 {
			var ended atomic.Int64
			for range 20 {
				for range 50 {
					go func() {
						for range 5 {
							p.await()
						}
						ended.Add(1)
					}()
				}
				time.Sleep(pacerSlice)
			}
			poll.Until(t, "all work to end", func() bool { return ended.Load() == 1000 })
			poll.Until(t, "what gives the turns to end", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return !p.running && p.waiting == 0
			})
		}
	}
}

// Resumes begin, also while other work waits for turns all the time.
func TestResumesBeginWhileOtherWorkWaits(t *testing.T) {
	t.Parallel()
	var p pacer
	var has, end atomic.Bool
	begun := make(chan struct{}, 100)
	p.init(&has, func(*Context) { begun <- struct{}{} })
	var working sync.WaitGroup
	defer working.Wait()
	defer end.Store(true)
	for range 100 * p.cpus {
		working.Go(func() {
			for !end.Load() {
				p.await()
			}
		})
	}
	poll.Until(t, "work to wait", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.running
	})
	for range cap(begun) {
		p.begin(new(Context))
	}
	poll.Until(t, "all resumes to begin", func() bool { return len(begun) == cap(begun) })
}
