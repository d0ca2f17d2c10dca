package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// Text of other people is text: no markup of theirs takes effect.
func TestTextIsNeverMarkup(t *testing.T) {
	s := startChat(t)
	const attack = `<img src=x onerror="document.title='owned'"><b>bold</b>`
	ada, mallory := enter(t, s, "Ada"), enter(t, s, `<i>Mal</i>`)
	mallory.say(attack)
	ada.sees(attack)
	ada.people("Ada", `<i>Mal</i>`)
	if eval[int](ada, `document.querySelectorAll(".message .body *, .name *").length`) != 0 {
		t.Error("markup in a message or a name became elements")
	}
	if title := eval[string](ada, "document.title"); strings.Contains(title, "owned") {
		t.Error("a script in a message ran")
	}
}

func TestKeyboardAlone(t *testing.T) {
	s := startChat(t)
	bob := enter(t, s, "Bob")
	ada := openTab(t, s.url(), "Ada")
	ada.until("the name is asked for and has the focus", `document.activeElement.id === "name"`)
	ada.keys("Ada")
	ada.enter()
	ada.connected()
	ada.until("the message box has the focus", `document.activeElement.id === "text"`)
	ada.keys("no mouse needed")
	ada.enter()
	bob.sees("no mouse needed")

	// Everything that can be clicked can be reached.
	want := eval[[]string](ada, reachable)
	seen := map[string]bool{}
	for range 3 * len(want) {
		ada.press(kb.Tab)
		seen[eval[string](ada, label+`(document.activeElement)`)] = true
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("the Tab key never reaches %s", w)
		}
	}
}

const label = `((e) => e.id || e.hash || e.textContent)`

const reachable = `[...document.querySelectorAll("a, button, input, textarea")]
	.filter((e) => e.tabIndex >= 0 && !e.closest("dialog") && e.checkVisibility({visibilityProperty: true})).map(` + label + `)`

// Nothing is cut off at the side and nothing overlaps, down to small phones.
func TestFitsEveryWidth(t *testing.T) {
	s := startChat(t)
	ada := enter(t, s, "Ada")
	ada.say(strings.Repeat("Donaudampfschifffahrt", 20))
	ada.click("flood")
	ada.until("the flood is over", floodIsOver)
	for _, width := range []int64{320, 360, 390, 600, 760, 900, 1080, 1280, 1920} {
		ada.resize(width, 740)
		ada.until(fmt.Sprintf("nothing sticks out at %d px", width), `[...document.querySelectorAll("body *")].every((e) => {
			const r = e.getBoundingClientRect();
			return r.left >= -1 && r.right <= innerWidth + 1 || !e.checkVisibility({visibilityProperty: true}) || e.matches(".sr, .skip");
		})`)
		ada.until("the send button is on the screen", `document.getElementById("send").getBoundingClientRect().bottom <= innerHeight`)
		if h := eval[float64](ada, `document.getElementById("log").clientHeight`); h < 200 {
			t.Errorf("at %d px only %g px are left for messages", width, h)
		}
	}
}

func TestEverythingComesFromTheServerItself(t *testing.T) {
	s := startChat(t)
	res, err := http.Get(s.url())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	policy := res.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("Content-Security-Policy %q lacks %s", policy, want)
		}
	}
	ada := enter(t, s, "Ada")
	for _, name := range eval[[]string](ada, `performance.getEntriesByType("resource").map((e) => e.name)`) {
		if !strings.HasPrefix(name, s.url()) {
			t.Errorf("the page loads %s", name)
		}
	}
}
