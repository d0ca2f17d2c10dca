package router_test

import (
	"fmt"
	"testing"

	"github.com/wskit/wskit/router"
)

// A client that has missed exactly as many messages as HistoryOptions.Replay allows gets all of them, whether the
// topic has other members or not.
func TestReplayUpToItsBound(t *testing.T) {
	for _, followed := range []bool{false, true} {
		t.Run(fmt.Sprintf("followed %v", followed), func(t *testing.T) {
			const most = 3
			l := newFaultyLog()
			s := withHistory(t, l, router.Options{}, router.HistoryOptions{Replay: most})
			p := s.reader(l, "room:a")
			s.appends(0, 1)
			p.until(l.head("room:a"))
			members := 0
			if followed {
				stays := s.reader(l, "room:a")
				defer stays.hangUp()
				members = 1
			}
			p.hangUp()
			eventually(t, "the connection to end", func() bool { return s.r.LocalSubscribers("room:a") == members })
			s.appends(1, most)
			p.resume(s)
			if want := fmt.Sprintf("[room:a resumed after %d]", most); fmt.Sprint(p.resumed) != want {
				t.Errorf("the client gets %v, want %v", p.resumed, want)
			}
			p.hangUp()
		})
	}
}
