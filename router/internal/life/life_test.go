package life

import (
	"sync"
	"sync/atomic"
	"testing"
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
