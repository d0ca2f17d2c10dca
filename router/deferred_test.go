package router

import (
	"runtime"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/poll"
)

// While a message that is being published holds its connection's deferred flush, the watchdog's looks leave one
// goroutine that waits for it, not one each.
func TestWatchdogFlushesBesideOnce(t *testing.T) {
	t.Parallel()
	d := new(deferredFlush)
	d.mu.Lock()
	for range 100 {
		d.flushBeside()
	}
	waiting := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".(*deferredFlush).flush(")
	}
	poll.Until(t, "a goroutine to wait", func() bool { return waiting() > 0 })
	if n := waiting(); n != 1 {
		t.Errorf("%d goroutines wait to flush, want 1", n)
	}
	d.mu.Unlock()
}

// What is queued while the watchdog's goroutine flushes is flushed as well, although no other goroutine is started for it,
// and the watchdog may not look again.
func TestWatchdogFlushesWhatIsQueuedMeanwhile(t *testing.T) {
	t.Parallel()
	var d deferredFlush
	var slow, later subscription
	due := func(in *subscription) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subs = append(d.subs, in)
		d.flushBeside()
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
	poll.Until(t, "what came meanwhile to be flushed", taken)
}
