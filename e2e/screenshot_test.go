package e2e

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestScreenshots leaves pictures for a person to look at: nothing but eyes can
// say whether a page is pleasant.
func TestScreenshots(t *testing.T) {
	nightly(t)
	for _, size := range []struct {
		name          string
		width, height int64
		phone         bool
	}{
		{"desktop", 1280, 800, false},
		{"phone", 390, 844, true},
		{"landscape", 844, 390, true},
	} {
		for _, scheme := range []string{"light", "dark"} {
			if size.name == "landscape" && scheme == "light" {
				continue
			}
			t.Run(size.name+"-"+scheme, func(t *testing.T) {
				s := startChat(t)
				bob := enter(t, s, "Bob")
				bob.say("Morning! Is the new build out?")
				eve := enter(t, s, "Eve Okafor")
				eve.say("Since eight. The limiter is on by default now.")
				eve.say("Ten messages, then one every three seconds. Try the flood button, it is oddly satisfying.")
				ada := openTab(t, s.url(), "Ada")
				ada.emulate(size.width, size.height, size.phone, scheme)
				shoot := func(what string) { ada.shoot(what + "-" + size.name + "-" + scheme) }

				ada.until("the name is asked for", `document.getElementById("welcome").open`)
				shoot("0-welcome")
				ada.join()
				ada.people("Ada", "Bob", "Eve Okafor")
				ada.say("Good morning, both. Just reading the release notes.")
				bob.say("It refused me twice already, and kept my text both times")
				ada.sees("It refused me twice already, and kept my text both times")
				shoot("1-joined")
				if size.phone {
					ada.click("how")
					shoot("1-joined-how")
					ada.click("how")
					ada.click("menu")
					ada.until("the drawer is open", `document.getElementById("side").getBoundingClientRect().left === 0`)
					shoot("1-joined-drawer")
					ada.press(kb.Escape)
					ada.until("the drawer is closed", `!document.getElementById("side").checkVisibility({visibilityProperty: true})`)
				}

				ada.isRefused("This one waits its turn")
				shoot("2-flood")

				ada.until("the countdown ends", maySend)
				s.stop()
				ada.until("the page waits", waiting)
				shoot("3-reconnecting")
			})
		}
	}
}
