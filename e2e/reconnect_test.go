package e2e

import "testing"

const waiting = `document.getElementById("connection").dataset.state === "waiting"`

func TestDrainAndRestart(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	ada.say("before the restart")
	bob.write("not sent yet")

	s.stop()
	for _, tb := range []*tab{ada, bob} {
		tb.until("the page says that the server restarts", waiting+` && /restarting/.test(document.getElementById("connection").textContent)`)
	}
	bob.sees("before the restart")

	s.start()
	ada.connected()
	bob.connected()
	if got := bob.box(); got != "not sent yet" {
		t.Errorf("after the restart the box holds %q", got)
	}
	ada.people("Ada", "Bob")
	bob.people("Ada", "Bob")
	bob.enter()
	ada.sees("not sent yet")
	ada.sees("before the restart")
	if n := eval[int](ada, `document.querySelectorAll("#messages .note").length`); n > 1 {
		t.Errorf("the restart left %d notes about members that never left: %v", n, eval[[]string](ada, `[...document.querySelectorAll("#messages .note")].map((e) => e.textContent)`))
	}
}

func TestCrashIsSurvived(t *testing.T) {
	s := startChat(t)
	ada := enter(t, s, "Ada")
	ada.write("half a mess")
	s.crash()
	ada.until("the page says that it reconnects", waiting)
	ada.write("age")
	eval[any](ada, `document.getElementById("flood").click()`)
	if !eval[bool](ada, `document.getElementById("flood").ariaDisabled === "true" && document.getElementById("outcome").hidden`) {
		t.Error("a flood begins without a connection")
	}
	s.start()
	ada.connected()
	if got := ada.box(); got != "half a message" {
		t.Errorf("after the crash the box holds %q", got)
	}
	ada.gaps(1) // the messages of the room were in the memory of the server
	ada.until("the page says why", `document.querySelector("#messages .gap").textContent.startsWith("The server has restarted.")`)
	ada.enter()
	ada.sees("half a message")
}

func TestTryNow(t *testing.T) {
	s := startChat(t)
	ada := enter(t, s, "Ada")
	s.crash()
	ada.until("the page waits", waiting)
	s.start()
	// The wait may end by itself just now: then there is nothing to press.
	eval[any](ada, `document.getElementById("retry").hidden || document.getElementById("retry").click()`)
	ada.connected()
}

// The server has taken a message, but its answer is lost with the connection.
// Once the page finds the message in the room it does not offer to send it again.
func TestLostAnswer(t *testing.T) {
	s := startChat(t)
	bob := enter(t, s, "Bob")
	ada := openTab(t, s.url(), "Ada")
	eval[any](ada, `void (window.WebSocket = class extends WebSocket {
		send(data) {
			super.send(data);
			if (window.lost || !data.includes("sent once")) return;
			window.lost = true;
			this.onmessage = (event) => event.data.includes("sent once") && this.close(4000);
		}
	})`)
	ada.join()
	ada.write("sent once")
	ada.enter()
	ada.until("the connection was lost", `window.lost === true`)
	ada.sees("sent once")
	ada.until("the box is empty", `document.getElementById("text").value === ""`)
	bob.sees("sent once")
	for _, tb := range []*tab{ada, bob} {
		if n := eval[int](tb, tb.bodies()+`.filter((text) => text === "sent once").length`); n != 1 {
			t.Errorf("%s sees the message %d times", tb.name, n)
		}
	}
}
