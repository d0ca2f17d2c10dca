package e2e

import "testing"

func TestTwoTabsChat(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	ada.people("Ada", "Bob")
	bob.people("Ada", "Bob")

	ada.say("Hello Bob")
	bob.sees("Hello Bob")
	bob.say("Hello Ada")
	ada.sees("Hello Ada")

	// A member that joins later gets the earlier messages.
	eve := enter(t, s, "Eve")
	eve.sees("Hello Bob")
	eve.sees("Hello Ada")
}

func TestPeopleComeAndGo(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	ada.notes("Bob joined")
	ada.people("Ada", "Bob")

	bob.close()
	ada.notes("Bob left")
	ada.people("Ada")
}

func TestRoomsAreApart(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	ada.people("Ada", "Bob")

	bob.focus("new-room-name")
	bob.keys("Garden")
	bob.enter()
	bob.until("in the new room", `document.getElementById("room-title").textContent === "# garden"`)
	bob.people("Bob")
	ada.notes("Bob left")
	ada.until("the new room is listed", `[...document.querySelectorAll("#rooms a")].some((a) => a.hash === "#garden")`)

	bob.say("only in the garden")
	ada.say("only in the lobby")
	eval[any](bob, `document.querySelector("#rooms a[href='#lobby']").click()`)
	bob.until("back in the lobby", `document.getElementById("room-title").textContent === "# lobby"`)
	bob.sees("only in the lobby")
	if eval[bool](bob, bob.bodies()+`.includes("only in the garden")`) {
		t.Error("the lobby shows a message of another room")
	}
	ada.notes("Bob joined")
}

func TestNameCanBeChanged(t *testing.T) {
	s := startChat(t)
	ada, bob := enter(t, s, "Ada"), enter(t, s, "Bob")
	ada.people("Ada", "Bob")
	bob.click("me")
	bob.name = "Robert"
	bob.join()
	ada.notes("Bob is now Robert")
	ada.people("Ada", "Robert")
}
