package life

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// From each state only later ones can be entered, each once.
func TestStatesComeInOrder(t *testing.T) {
	for _, from := range []State{Open, Draining, Closing, Ended} {
		for _, to := range []State{Open, Draining, Closing, Ended} {
			var l Life
			l.To(from)
			want := map[[2]State]bool{
				{Open, Draining}: true, {Open, Closing}: true, {Open, Ended}: true,
				{Draining, Closing}: true, {Draining, Ended}: true, {Closing, Ended}: true,
			}[[2]State{from, to}]
			if got := l.To(to); got != want {
				t.Errorf("from %d to %d: %v", from, to, got)
			}
			if now := l.State(); want && now != to || !want && now != from {
				t.Errorf("from %d to %d it is in %d", from, to, now)
			}
		}
	}
}

// Either the opening is announced, and the end finds that, or the end comes first, and
// the caller of Announce finds that: OnClose is called once.
func TestTheEndIsAnnouncedOnce(t *testing.T) {
	for range 2000 {
		var l Life
		var closed atomic.Int32
		var all sync.WaitGroup
		all.Go(func() {
			if !l.Announce() {
				closed.Add(1)
			}
		})
		for range 2 {
			all.Go(func() {
				l.To(Closing)
				if l.To(Ended) && l.Announced() {
					closed.Add(1)
				}
			})
		}
		all.Wait()
		if n := closed.Load(); n != 1 || l.State() != Ended {
			t.Fatalf("the end is announced %d times, in state %d", n, l.State())
		}
	}
}

// Phases that are entered late, because two goroutines close the connection at the same time, do not bring back one
// that is over. Each has its own time.
func TestPhasesOnlyMoveOn(t *testing.T) {
	var c Phases
	for _, step := range []struct {
		enter   Phase
		at      time.Duration
		entered bool
		phase   Phase
		end     time.Duration
	}{
		{AwaitAnswer, time.Minute, true, AwaitAnswer, 65 * time.Second},
		{AwaitAnswer, time.Hour, false, AwaitAnswer, 65 * time.Second},
		{Flush, 70 * time.Second, true, Flush, 75 * time.Second},
		{AwaitEvents, 71 * time.Second, false, Flush, 75 * time.Second},
		{Over, 72 * time.Second, true, Over, 72 * time.Second},
		{Flush, 73 * time.Second, false, Over, 72 * time.Second},
	} {
		entered := c.Enter(step.enter, step.at)
		if phase, end := c.Phase(); entered != step.entered || phase != step.phase || end != step.end {
			t.Errorf("entering %d: %v, then in %d until %v; want %+v", step.enter, entered, phase, end, step)
		}
	}
}

// Of goroutines that enter phases at the same time, the one with the last phase wins, whatever the order.
func TestPhasesEnteredTogether(t *testing.T) {
	for range 2000 {
		var c Phases
		var all sync.WaitGroup
		for _, p := range []Phase{AwaitAnswer, AwaitEvents, Flush} {
			all.Go(func() { c.Enter(p, time.Second) })
		}
		all.Wait()
		if p, end := c.Phase(); p != Flush || end != 6*time.Second {
			t.Fatalf("in phase %d until %v", p, end)
		}
	}
}
