package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

const (
	floodIsOver = `!document.getElementById("outcome").hidden && document.getElementById("flood").ariaDisabled !== "true"`
	refused     = `document.getElementById("composer").dataset.state === "refused"`
	countdown   = `/^\d+(\.\d)? s$/.test(document.getElementById("send-text").textContent)`
	gaugeShows  = `/^\d+$/.test(document.getElementById("left").textContent)`
	maySend     = `document.getElementById("send").ariaDisabled !== "true"`
)

func TestFloodIsTurnedAway(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	bob.people("Ada", "Bob")

	accepted, turnedAway := ada.floods()
	if accepted+turnedAway != 500 {
		t.Errorf("%d accepted and %d refused are not 500", accepted, turnedAway)
	}
	if accepted < 10 || turnedAway < 400 {
		t.Errorf("%d accepted, %d refused: the bucket holds 10", accepted, turnedAway)
	}
	bob.until("Bob has exactly the accepted ones", bob.bodies()+`.filter((text) => text.startsWith("Flood:")).length === `+js(accepted))
	ada.spends()

	// One message more is refused, kept, counted down for, and then sent.
	kept := ada.isRefused("please keep me")
	if got := ada.box(); got != kept {
		t.Errorf("the box holds %q, want %q", got, kept)
	}
	if eval[bool](bob, bob.bodies()+`.includes(`+js(kept)+`)`) {
		t.Error("a refused message was delivered")
	}
	ada.until("the countdown ends", maySend)
	if got := ada.box(); got != kept {
		t.Errorf("after the countdown the box holds %q, want %q", got, kept)
	}
	ada.enter()
	bob.sees(kept)
	ada.until("the box is empty", `document.getElementById("text").value === ""`)
}

// While one tab floods without a pause, the others talk as if nothing were.
func TestOthersStayLiveDuringAFlood(t *testing.T) {
	s := startChat(t)
	ada, bob, eve := enter(t, s, "Ada"), enter(t, s, "Bob"), enter(t, s, "Eve")
	bob.people("Ada", "Bob", "Eve")

	eval[int](ada, `window.flooding = setInterval(() => document.getElementById("flood").click(), 10)`)
	ada.until("the flood is refused", `Number(document.getElementById("refused").textContent) > 0`) // of the last one that is over
	for _, text := range []string{"are you there?", "still there?", "and now?"} {
		bob.say(text)
		eve.sees(text)
		eve.say("yes: " + text)
		bob.sees("yes: " + text)
		ada.sees("yes: " + text)
	}
	if eval[bool](bob, refused) || eval[bool](eve, refused) {
		t.Error("the message of another tab was refused")
	}
	eval[any](ada, `clearInterval(window.flooding)`)
}

// A new connection is no way to a full bucket.
func TestReloadDoesNotRefill(t *testing.T) {
	s := startChat(t)
	ada := enter(t, s, "Ada")
	begun := time.Now()
	ada.floods()
	ada.reload()
	ada.connected()
	ada.until("the gauge shows what is left", gaugeShows)
	if left := eval[int](ada, `Number(document.getElementById("left").textContent)`); left > cameBack(begun) {
		t.Errorf("after a reload %d messages are left, and %d came back", left, cameBack(begun))
	}
	if accepted, _ := ada.floods(); accepted > cameBack(begun) {
		t.Errorf("after a reload %d messages were accepted, and %d came back", accepted, cameBack(begun))
	}
}

// cameBack is how many messages of a tab come back since a time, at most.
func cameBack(begun time.Time) int { return int(since(begun)/(3*time.Second)) + 1 }

// since is how long limits of a real server have been in force. A machine that is slow makes it longer, and what is
// compared with it allows more then.
func since(begun time.Time) time.Duration { return time.Since(begun) }

// floods sends 500 messages at once, and returns how many were accepted and how many refused.
func (tb *tab) floods() (accepted, refused int) {
	tb.t.Helper()
	tb.click("flood")
	tb.until("the flood is over", floodIsOver)
	counts := eval[[]int](tb, `["accepted", "refused"].map((id) => Number(document.getElementById(id).textContent))`)
	return counts[0], counts[1]
}

// spends floods until the gauge shows that nothing is left. On a slow machine a message comes back before the gauge is
// read: then the next flood takes it.
func (tb *tab) spends() {
	tb.t.Helper()
	looks := 0
	poll.Until(tb.t, tb.name+": the gauge shows that nothing is left", func() bool {
		if looks++; looks%100 == 0 {
			tb.floods()
		}
		return eval[string](tb, `document.getElementById("left").textContent`) == "0"
	})
}

// isRefused writes a message that is one too many, and returns it: it has a countdown. On a slow machine a message
// comes back before it is sent, or the countdown ends before it is read: then another one is one too many.
func (tb *tab) isRefused(text string) string {
	tb.t.Helper()
	tries := 0
	poll.Until(tb.t, tb.name+": a message is refused with a countdown", func() bool {
		if tb.box() == "" {
			tb.write(text)
		}
		tb.floods()
		tb.focus("text")
		tb.enter()
		tb.until("sent or refused", refused+` || document.getElementById("composer").dataset.state === "ready" || document.getElementById("text").value === ""`)
		if eval[bool](tb, refused+" && "+countdown) {
			return true
		}
		tries++
		text = fmt.Sprint(text, " ", tries)
		return false
	})
	return tb.box()
}
