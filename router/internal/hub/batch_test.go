package hub

import (
	"runtime"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/poll"
)

// While a message is being published to a batch, any number of calls leave one goroutine that waits for that.
func TestOneGoroutineAtMostFlushesConcurrently(t *testing.T) { // counted in the whole process: not parallel
	d := new(batch)
	d.mu.Lock()
	for range 100 {
		d.flushConcurrently()
	}
	waiting := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".(*batch).flush(")
	}
	poll.Until(t, "a goroutine to wait", func() bool { return waiting() > 0 })
	if n := waiting(); n != 1 {
		t.Errorf("%d goroutines wait to flush, want 1", n)
	}
	d.mu.Unlock()
}

// What is queued while that goroutine flushes is flushed as well, although no other one is started for it.
func TestWhatIsQueuedDuringAConcurrentFlushIsFlushed(t *testing.T) {
	t.Parallel()
	var d batch
	var slow, later subscription
	due := func(in *subscription) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subs = append(d.subs, in)
		d.flushConcurrently()
	}
	taken := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.subs) == 0
	}
	slow.mu.Lock()
	due(&slow)
	poll.Until(t, "the flush to begin", taken)
	due(&later)
	slow.mu.Unlock()
	poll.Until(t, "what came during it to be flushed", taken)
}
