package e2e

import "testing"

const (
	floodIsOver = `!document.getElementById("outcome").hidden && document.getElementById("flood").ariaDisabled !== "true"`
	refused     = `document.getElementById("composer").dataset.state === "refused"`
	countdown   = `/^\d+(\.\d)? s$/.test(document.getElementById("send-text").textContent)`
	maySend     = `document.getElementById("send").ariaDisabled !== "true"`
)

func TestFloodIsTurnedAway(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	bob.people("Ada", "Bob")

	ada.click("flood")
	ada.until("the flood is over", floodIsOver)
	accepted := eval[int](ada, `Number(document.getElementById("accepted").textContent)`)
	turnedAway := eval[int](ada, `Number(document.getElementById("refused").textContent)`)
	if accepted+turnedAway != 500 {
		t.Errorf("%d accepted and %d refused are not 500", accepted, turnedAway)
	}
	if accepted < 10 || turnedAway < 400 {
		t.Errorf("%d accepted, %d refused: the bucket holds 10", accepted, turnedAway)
	}
	bob.until("Bob has exactly the accepted ones", bob.bodies()+`.filter((text) => text.startsWith("Flood:")).length === `+js(accepted))
	ada.until("nothing left on the gauge", `document.getElementById("left").textContent === "0"`)

	// One message more is refused, kept, counted down for, and then sent.
	ada.isRefused("please keep me")
	if got := ada.box(); got != "please keep me" {
		t.Errorf("the box holds %q", got)
	}
	if eval[bool](bob, bob.bodies()+`.includes("please keep me")`) {
		t.Error("a refused message was delivered")
	}
	ada.until("the countdown ends", maySend)
	if got := ada.box(); got != "please keep me" {
		t.Errorf("after the countdown the box holds %q", got)
	}
	ada.enter()
	bob.sees("please keep me")
	ada.until("the box is empty", `document.getElementById("text").value === ""`)
}

// While one tab floods without a pause, the others talk as if nothing were.
func TestOthersStayLiveDuringAFlood(t *testing.T) {
	s := startChat(t)
	ada, bob, eve := enter(t, s, "Ada"), enter(t, s, "Bob"), enter(t, s, "Eve")
	bob.people("Ada", "Bob", "Eve")

	eval[int](ada, `window.flooding = setInterval(() => document.getElementById("flood").click(), 10)`)
	ada.until("the flood is refused", floodIsOver)
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
	ada.click("flood")
	ada.until("the flood is over", floodIsOver)
	ada.reload()
	ada.connected()
	if left := eval[int](ada, `Number(document.getElementById("left").textContent)`); left > 5 {
		t.Errorf("after a reload %d messages are left", left)
	}
	ada.click("flood")
	ada.until("the flood is over", floodIsOver)
	if accepted := eval[int](ada, `Number(document.getElementById("accepted").textContent)`); accepted > 5 {
		t.Errorf("after a reload %d messages were accepted", accepted)
	}
}

// isRefused writes a message that is one too many. On a slow machine a token may
// come back before the message is sent: then the next flood takes it.
func (tb *tab) isRefused(text string) {
	tb.t.Helper()
	for done := false; !done; {
		tb.write(text)
		tb.click("flood")
		tb.until("the flood is over", floodIsOver)
		tb.focus("text")
		tb.enter()
		tb.until("sent or refused", refused+` || document.getElementById("text").value === ""`)
		done = eval[bool](tb, refused)
	}
	tb.until("there is a countdown", countdown)
}
