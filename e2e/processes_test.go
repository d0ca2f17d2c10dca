package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/redistest"
)

// Three servers on one Redis are one chat with one limit for each tab. If one is killed, the
// others continue, and remove its members.
func TestThreeServersAreOneChat(t *testing.T) {
	nightly(t)
	redis := redistest.Start(t).URL()
	a, b, c := startChat(t, "-redis", redis), startChat(t, "-redis", redis), startChat(t, "-redis", redis)
	ada, bob, cid := enter(t, a, "Ada"), enter(t, b, "Bob"), enter(t, c, "Cid")
	for _, tb := range []*tab{ada, bob, cid} {
		tb.people("Ada", "Bob", "Cid")
	}
	for _, from := range []*tab{ada, bob, cid} {
		from.say("Hello from " + from.name)
		for _, to := range []*tab{ada, bob, cid} {
			to.sees("Hello from " + from.name)
		}
	}

	b.crash()
	bob.until("the page waits", waiting)
	ada.say("Where is Bob?")
	cid.sees("Where is Bob?")
	ada.people("Ada", "Cid")
	cid.people("Ada", "Cid")
	b.start()
	bob.connected()
	bob.sees("Where is Bob?")
	for _, tb := range []*tab{ada, bob, cid} {
		tb.people("Ada", "Bob", "Cid")
	}

	again := openTab(t, c.url(), "Ada") // the same tab, as far as a server can tell
	eval[any](again, `void (sessionStorage["wskit.tab"] = `+js(eval[string](ada, `sessionStorage["wskit.tab"]`))+`)`)
	again.reload()
	again.join()
	for n := 1; ; n++ {
		begun := time.Now()
		ada.floods()
		accepted, _ := again.floods()
		if accepted <= cameBack(begun) {
			break
		}
		// A server that waits for Redis for more than 250 ms decides by itself, and logs that.
		if n == 20 || !decidedAlone(a) && !decidedAlone(c) {
			t.Errorf("another server admits %d messages more, and %d came back", accepted, cameBack(begun))
			break
		}
	}
	cid.people("Ada", "Bob", "Cid")
}

// decidedAlone reports whether a server has ever decided without Redis.
func decidedAlone(s *server) bool {
	return strings.Contains(s.output.String(), "the store fails; the failure policy decides")
}
