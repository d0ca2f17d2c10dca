package e2e

import (
	"regexp"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

var moderatorURL = regexp.MustCompile(`\?moderator=\S+`)

// A moderator on one server removes a message, removes a member of the room, and bans it, on the other.
func TestModerator(t *testing.T) {
	nightly(t)
	redis := redistest.Start(t).URL()
	a, b := startChat(t, "-redis", redis, "-moderate"), startChat(t, "-redis", redis, "-moderate")
	var query string
	poll.Until(t, "the URL for moderators is printed", func() bool {
		query = moderatorURL.FindString(a.output.String())
		return query != ""
	})
	mod := openTab(t, a.url()+"/"+query, "Mod")
	mod.join()
	if eval[bool](mod, `location.href.includes("moderator")`) {
		t.Error("the address shows the key")
	}
	ann, bob := enter(t, b, "Ann"), enter(t, b, "Bob")
	mod.people("Ann", "Bob", "Mod")
	if eval[int](ann, `document.querySelectorAll(".moderate").length`) > 0 {
		t.Error("a member that is no moderator has buttons for it")
	}

	ann.say("bad words")
	for _, tb := range []*tab{mod, bob} {
		tb.sees("bad words")
	}
	eval[any](mod, `[...document.querySelectorAll("#messages .message")].find((m) => m.innerText.includes("bad words")).querySelector(".moderate").click()`)
	for _, tb := range []*tab{mod, ann, bob} {
		tb.sees("Removed by a moderator")
		tb.until("the message is gone", `!document.getElementById("messages").innerText.includes("bad words")`)
	}
	late := enter(t, a, "Late")
	mod.say("welcome")
	late.sees("welcome")
	if eval[bool](late, late.bodies()+`.includes("bad words")`) {
		t.Error("a member that comes later sees the message")
	}

	press := func(button string) {
		t.Helper()
		eval[any](mod, `document.querySelector("#people button[aria-label='`+button+` Ann']").click()`)
	}
	press("Remove")
	ann.until("it is told", `document.getElementById("messages").innerText.includes("has removed you from this room")`)
	mod.people("Bob", "Late", "Mod")
	bob.people("Bob", "Late", "Mod")
	mod.say("without Ann")
	bob.sees("without Ann")
	if eval[bool](ann, ann.bodies()+`.includes("without Ann")`) {
		t.Error("a member that was removed sees a message")
	}
	eval[any](ann, `document.querySelector("#rooms a[href='#lobby']").click()`)
	ann.sees("without Ann") // it may come back
	mod.people("Ann", "Bob", "Late", "Mod")

	press("Ban")
	ann.until("it is disconnected", waiting)
	mod.people("Bob", "Late", "Mod")
	ann.click("retry")
	ann.until("it is refused", waiting)
}
