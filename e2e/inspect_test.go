package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/wskit/wskit/internal/redistest"
)

// inspectorOf is the address of the inspector that a chat has printed.
func inspectorOf(s *server) string {
	s.t.Helper()
	s.says("Inspector on ")
	_, rest, _ := strings.Cut(s.output.String(), "Inspector on ")
	url, _, _ := strings.Cut(rest, "\n")
	return url
}

// goTo opens a screen of the inspector.
func (tb *tab) goTo(screen string) {
	tb.t.Helper()
	eval[any](tb, `void (location.hash = `+js(screen)+`)`)
}

const cells = `[...document.querySelectorAll("td")].map((e) => e.textContent)`

// The inspector of a chat of two servers: what it shows is what has happened, in both of them.
func TestInspector(t *testing.T) {
	nightly(t)
	redis := redistest.Start(t)
	one := startChat(t, "-redis", redis.URL(), "-inspect")
	two := startChat(t, "-redis", redis.URL(), "-inspect")
	ada := enter(t, one, `Ada`)
	bob := enter(t, two, "Bob")
	bob.say("hello")
	_, turnedAway := ada.floods()

	for _, size := range []struct {
		name          string
		width, height int64
		phone         bool
		scheme        string
	}{{"desktop-light", 1280, 800, false, "light"}, {"phone-dark", 390, 844, true, "dark"}} {
		op := openTab(t, inspectorOf(one), "operator")
		op.emulate(size.width, size.height, size.phone, size.scheme)
		shoot := func(what string) { op.shoot("inspect-" + what + "-" + size.name) }
		fits := func() {
			t.Helper()
			if wide := eval[[]string](op, `[...document.querySelectorAll("body *")].filter((e) => !e.closest(innerWidth > 700 ? "nav, .table" : "nav, thead") && e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className || e.tagName)`); len(wide) > 0 {
				t.Errorf("%s: %v is cut off", size.name, wide)
			}
		}
		op.until("both processes have answered", `document.getElementById("state").textContent === "2 processes"`)
		op.until("the token is not in the address", `!location.href.includes("token")`)
		op.until("two connections", `[...document.querySelectorAll(".graph")].at(-1).querySelector("strong").textContent === "2"`)
		op.until("the client that was limited is a problem of now", `document.querySelector(".problems")?.textContent.includes("was limited `+fmt.Sprint(turnedAway)+` times")`)
		shoot("0-overview")
		fits()

		op.goTo("connections")
		op.until("both connections are listed", `document.querySelectorAll("tbody tr").length === 2`)
		shoot("1-connections")
		fits()

		op.goTo("topics")
		op.until("the topic of the room has both members", cells+`.includes("messages:lobby") && `+cells+`.includes("2")`)
		shoot("2-topics")
		fits()

		op.goTo("types")
		op.until("what was refused is counted", `[...document.querySelectorAll(".tag.bad")].some((e) => e.textContent.includes(`+js(fmt.Sprint("RESOURCE_EXHAUSTED ", turnedAway))+`))`)
		shoot("3-types")
		fits()

		op.goTo("limits")
		op.until("the rejections are listed", `[...document.querySelectorAll("h2")].some((e) => e.textContent === "Last rejections") && `+cells+`.includes("`+fmt.Sprint(turnedAway)+`")`)
		// The user that was rejected last: why?
		eval[any](op, `void [...document.querySelectorAll("section section:last-child tbody button.link")][0].click()`)
		op.until("the limits of this client are listed", `document.querySelector(".verdict") !== null && `+cells+`.includes("tab")`)
		shoot("4-limits")
		fits()
		op.close()
	}

	// A trace of a connection shows what comes and goes.
	op := openTab(t, inspectorOf(two), "operator")
	op.until("both processes have answered", `document.getElementById("state").textContent === "2 processes"`)
	op.goTo("connections")
	op.until("both connections are listed", `document.querySelectorAll("tbody tr").length === 2`)
	eval[any](op, `void [...document.querySelectorAll("button.small")].find((e) => e.textContent === "Trace").click()`)
	op.until("it records at once", `document.querySelector("section p")?.textContent.startsWith("Recording")`)
	eval[any](op, `void document.querySelector("input[name=payloads]").click()`)
	eval[any](op, `void document.querySelector("form.fields button").click()`)
	op.until("it records", `document.querySelector("section p").textContent.startsWith("Recording")`)
	const attack = `<img src=x onerror="document.title='owned'">`
	bob.say(attack)
	op.until("the message is in the trace", cells+`.some((text) => text.includes("onerror"))`)
	op.shoot("inspect-5-trace-desktop-light")
	if eval[int](op, `document.querySelectorAll("td img").length`) != 0 || eval[string](op, "document.title") == "owned" {
		t.Error("what a client has sent became markup")
	}

	// A server that is killed is missing; one that is not authorized sees nothing.
	one.crash()
	op.goTo("overview")
	op.until("one process answers", `/^1 /.test(document.getElementById("state").textContent)`)
	stranger := openTab(t, two.url()+"inspect/", "stranger")
	stranger.until("a token is asked for, and nothing is wrong yet", `!document.getElementById("login").hidden &&
		document.getElementById("main").textContent === "" && document.getElementById("login-problem").textContent === "" &&
		document.getElementById("state").className === "state"`)
	stranger.do(chromedp.SetValue(chromedp.ID("token"), "wrong"))
	eval[any](stranger, `void document.querySelector("#login button").click()`)
	stranger.until("it is refused", `document.getElementById("login-problem").textContent === "The token is not accepted."`)
}
