package router

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

// All work that waits gets a turn, whenever it comes, and what gives the turns ends when none waits.
func TestAllWorkGetsATurn(t *testing.T) {
	for _, sockets := range []bool{false, true} {
		var p pacer
		var has atomic.Bool
		has.Store(sockets)
		p.init(&has)
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
			poll.Until(t, time.Minute, "all work to end", func() bool { return ended.Load() == 1000 })
			poll.Until(t, time.Minute, "what gives the turns to end", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return !p.running && p.waiting == 0
			})
		}
	}
}
