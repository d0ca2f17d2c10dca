package watchdog

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

// What is added is looked at within two ticks, and every tick until Observe says that it need not be. Then there is no
// goroutine any more, and it may be added again.
func TestWhatIsAddedIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		w := &Watchdog[string]{Config: Config[string]{
			Observe: func(of string) bool {
				if of != "busy" {
					t.Errorf("it looked at %q", of)
				}
				at = append(at, time.Since(began))
				return len(at)%3 != 0
			},
			Sockets: new(atomic.Bool), Stop: make(chan struct{}),
		}}
		link := &Link[string]{Of: "busy"}
		for range 2 {
			at, began = nil, time.Now()
			w.Add(link, 1)
			time.Sleep(time.Second)
			synctest.Wait()
			if want := []time.Duration{Tick, 2 * Tick, 3 * Tick}; !slices.Equal(at, want) {
				t.Errorf("it looked after %v, want %v", at, want)
			}
			if stacks := make([]byte, 1<<16); strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), ").run(") {
				t.Error("its goroutine has not ended")
			}
		}
	})
}

// Of many that are added at the same time, on any list, none is forgotten: also of those that come as the watchdog
// ends.
func TestNoneIsForgotten(t *testing.T) {
	w := &Watchdog[chan bool]{Config: Config[chan bool]{
		Observe: func(looked chan bool) bool { looked <- true; return false },
		Sockets: new(atomic.Bool), Stop: make(chan struct{}),
	}}
	var all sync.WaitGroup
	for i := range Stripes {
		all.Go(func() {
			for range 200 {
				looked := make(chan bool, 1)
				w.Add(&Link[chan bool]{Of: looked}, uint8(i))
				poll.Receive(t, looked, "a look")
			}
		})
	}
	all.Wait()
}
