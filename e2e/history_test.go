package e2e

import (
	"slices"
	"testing"

	"github.com/wskit/wskit/internal/redistest"
)

// shows checks all messages that a tab shows.
func (tb *tab) shows(texts ...string) {
	tb.t.Helper()
	tb.sees(texts[len(texts)-1])
	if got := eval[[]string](tb, tb.bodies()); !slices.Equal(got, texts) {
		tb.t.Errorf("%s sees %q, want %q", tb.name, got, texts)
	}
}

// A page whose server was killed shows each message that it missed once and in order. Where
// messages were lost for good, all pages show that.
func TestMissedMessages(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startChat(t, "-redis", redis.URL()), startChat(t, "-redis", redis.URL())
	ada, bob := enter(t, a, "Ada"), enter(t, b, "Bob")
	ada.say("one")
	bob.sees("one")
	for range 2 { // the second time with nothing missed
		b.crash()
		bob.until("the page waits", waiting)
		if !eval[bool](ada, ada.bodies()+`.includes("two")`) {
			ada.say("two")
			ada.say("three")
			ada.sees("three")
		}
		b.start()
		bob.connected()
		bob.shows("one", "two", "three")
		bob.gaps(0)
	}
	bob.say("four")
	for _, tb := range []*tab{ada, bob} {
		tb.shows("one", "two", "three", "four")
		tb.gaps(0)
	}

	redis.Do("DEL", "wskit:log:{messages:lobby}")
	bob.say("five")
	for _, tb := range []*tab{ada, bob} {
		tb.gaps(1)
		tb.shows("one", "two", "three", "four", "five")
	}
	ada.say("six")
	for _, tb := range []*tab{ada, bob} {
		tb.shows("one", "two", "three", "four", "five", "six")
		tb.gaps(1)
	}
}

// A page whose join is refused for a time shows nothing out of order meanwhile, and then what it missed.
func TestJoinIsRefusedAfterReconnecting(t *testing.T) {
	nightly(t)
	redis := redistest.Start(t)
	a, b := startChat(t, "-redis", redis.URL()), startChat(t, "-redis", redis.URL())
	ada, bob := enter(t, a, "Ada"), openTab(t, b.url(), "Bob")
	eval[any](bob, `void (window.WebSocket = class extends WebSocket {
		set onmessage(handle) {
			super.onmessage = ({ data }) => {
				const { type, meta } = JSON.parse(data);
				if (window.refuse && type === "room.joined") {
					window.refuse = false;
					data = JSON.stringify({ type: "RPC_ERROR", meta, payload: { code: "UNAVAILABLE", message: "later", retryable: true, retryAfterMs: 3000 } });
				}
				if (type === "chat.message") window.got = true;
				handle({ data });
			};
		}
	})`)
	bob.join()
	b.crash()
	bob.until("the page waits", waiting)
	ada.say("missed")
	eval[any](bob, `void (window.refuse = true)`)
	b.start()
	bob.until("its join is refused", `window.refuse === false`)
	ada.say("live")
	bob.until("the message has come as an event", `window.got === true`)
	bob.shows("missed", "live")
	bob.gaps(0)
}
