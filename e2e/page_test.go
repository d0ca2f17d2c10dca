package e2e

import (
	"fmt"
	"net/http"
	"slices"
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

// Nothing is cut off at the side and nothing overlaps, down to small phones, also on their side.
func TestFitsEverySize(t *testing.T) {
	nightly(t)
	s := startChat(t)
	ada := enter(t, s, "Ada")
	ada.say(strings.Repeat("Donaudampfschifffahrt", 20))
	ada.click("flood")
	ada.until("the flood is over", floodIsOver)
	for _, size := range []struct{ width, height, log int64 }{
		{320, 740, 200}, {360, 740, 200}, {390, 740, 200}, {600, 740, 200}, {760, 740, 200}, {900, 740, 200},
		{1080, 740, 200}, {1280, 740, 200}, {1920, 740, 200}, {667, 375, 150}, {844, 390, 150}, {932, 430, 150},
	} {
		ada.resize(size.width, size.height)
		ada.until(fmt.Sprintf("nothing sticks out at %d px", size.width), `[...document.querySelectorAll("body *")].every((e) => {
			const r = e.getBoundingClientRect();
			return r.left >= -1 && r.right <= innerWidth + 1 || !e.checkVisibility({visibilityProperty: true}) || e.matches(".sr, .skip");
		})`)
		ada.until("the send button is on the screen", `document.getElementById("send").getBoundingClientRect().bottom <= innerHeight`)
		if h := eval[int64](ada, `document.getElementById("log").clientHeight`); h < size.log {
			t.Errorf("at %d × %d px only %d px are left for messages", size.width, size.height, h)
		}
	}
}

// A phone shows what the limit is, and the members, upright and on its side.
func TestPhone(t *testing.T) {
	s := startChat(t)
	enter(t, s, "Bob")
	ada := openTab(t, s.url(), "Ada")
	ada.emulate(390, 844, true, "light")
	ada.join()
	const explained = `document.getElementById("explain").checkVisibility()`
	if eval[bool](ada, explained) {
		t.Error("a phone shows the explanation before the button is pressed")
	}
	ada.click("how")
	ada.until("the limit is explained", explained)
	ada.until("no second tab is offered", `![...document.querySelectorAll(".second-tab")].some((e) => e.checkVisibility())`)
	ada.click("how")
	ada.until("the explanation is closed", `!(`+explained+`)`)
	for _, size := range [][2]int64{{390, 844}, {844, 390}} {
		ada.emulate(size[0], size[1], true, "light")
		ada.until("the head lists the members", `document.getElementById("room-size").innerText === "2 people here: you, Bob"`)
		ada.click("menu")
		ada.until("the list of members is on the screen", `[...document.querySelectorAll("#people .name")].every((e) => {
			const r = e.getBoundingClientRect();
			return r.left >= 0 && r.top >= 0 && r.bottom <= innerHeight;
		})`)
		ada.press(kb.Escape)
		ada.until("the drawer is closed", `!document.getElementById("side").checkVisibility({visibilityProperty: true})`)
	}
}

// Members of a room have different colours, the same ones in the list and beside their messages.
func TestColoursOfNames(t *testing.T) {
	nightly(t)
	s := startChat(t)
	ada := enter(t, s, "Ada")
	for _, name := range []string{"Bob", "Cyd", "Dan", "Eve", "Fay"} {
		enter(t, s, name).say("from " + name)
		ada.sees("from " + name)
	}
	ada.people("Ada", "Bob", "Cyd", "Dan", "Eve", "Fay")
	const colours = `[...document.querySelectorAll("#people .name")].map((e) => [e.textContent, e.style.getPropertyValue("--hue")])`
	if n := eval[int](ada, `new Set(`+colours+`.map(([, hue]) => hue)).size`); n != 6 {
		t.Errorf("6 members have %d colours", n)
	}
	if !eval[bool](ada, `(() => { const of = new Map(`+colours+`);
		return [...document.querySelectorAll("#messages .message .name")].every((e) => of.get(e.textContent) === e.style.getPropertyValue("--hue")); })()`) {
		t.Error("a name beside a message has another colour than in the list")
	}
}

// Web addresses in messages are links to where they say, and nothing else is a link.
func TestLinks(t *testing.T) {
	s := startChat(t)
	ada := enter(t, s, "Ada")
	text := `see https://example.org/a?b=1&c=2, (http://example.org/x) and https://example.org/y_(z) not javascript:alert(1) nor https:// or <a href="https://example.org/q">https://example.org/q</a>.`
	ada.say(text)
	want := []string{"https://example.org/a?b=1&c=2", "http://example.org/x", "https://example.org/y_(z)", "https://example.org/q", "https://example.org/q"}
	links := eval[[]string](ada, `[...document.querySelectorAll("#messages .body a")].map((a) => a.getAttribute("href") === a.textContent && a.rel.includes("noopener") ? a.href : "bad " + a.href)`)
	if !slices.Equal(links, want) {
		t.Errorf("the links are %q, want %q", links, want)
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
