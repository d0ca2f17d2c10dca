package fairness

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/internal/poll"
)

// All work that waits gets a turn, whenever it comes, and what gives the turns ends when none waits.
func TestAllWorkGetsATurn(t *testing.T) {
	t.Parallel()
	for _, sockets := range []bool{false, true} {
		var q Queue[int]
		var has atomic.Bool
		has.Store(sockets)
		q.Init(&has, nil)
		for range 3 {
			var ended atomic.Int64
			for came := int64(50); came <= 1000; came += 50 {
				for range 50 {
					go func() {
						for range 5 {
							q.Await()
						}
						ended.Add(1)
					}()
				}
				poll.Until(t, "some of it to end", func() bool { return ended.Load() >= came-25 })
			}
			poll.Until(t, "all work to end", func() bool { return ended.Load() == 1000 })
			poll.Until(t, "what gives the turns to end", func() bool {
				q.mu.Lock()
				defer q.mu.Unlock()
				return !q.running && q.waiting == 0
			})
		}
	}
}

// What is put off begins, also while other work waits for turns all the time.
func TestWhatIsPutOffBeginsWhileOtherWorkWaits(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	var has, end atomic.Bool
	begun := make(chan struct{}, 100)
	q.Init(&has, func(int) { begun <- struct{}{} })
	var working sync.WaitGroup
	defer working.Wait()
	defer end.Store(true)
	for range 100 * q.cpus {
		working.Go(func() {
			for !end.Load() {
				q.Await()
			}
		})
	}
	poll.Until(t, "work to wait", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.running
	})
	for range cap(begun) {
		q.PutOff(0)
	}
	poll.Until(t, "all that was put off to begin", func() bool { return len(begun) == cap(begun) })
}
