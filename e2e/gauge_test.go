package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

const (
	left  = `Number(document.getElementById("left").textContent)`
	pips  = `[...document.querySelectorAll("#gauge .whole")].length`
	fills = `[...document.querySelectorAll("#gauge span")].reduce((sum, e) => sum + Number(e.style.getPropertyValue("--fill")), 0)`
)

// The gauge is what the server then admits: after messages, after a flood, and while it fills.
func TestGaugeIsRight(t *testing.T) {
	s := startChat(t)
	ada := enter(t, s, "Ada")
	ada.until("the gauge is full", left+` === 10 && `+pips+` === 10 && document.getElementById("refill").textContent === "The bucket is full"`)
	for _, text := range []string{"one", "two", "three"} {
		ada.say(text)
	}
	ada.until("the gauge has moved", left+` < 10 && `+left+` === `+pips+` && document.getElementById("refill").textContent.startsWith("Next one in ")`)
	ada.shoot("4-gauge")
	ada.admitsWhatTheGaugeShows()
	ada.spends()
	// Without a frame from the server for each step: those are sent when something has changed.
	eval[any](ada, `window.steps = new Set()`)
	ada.until("the gauge fills", `steps.add(`+fills+`).size > 6`)
	ada.until("one has come back", left+` >= 1`)
	ada.shoot("4-gauge-refilled")
	ada.admitsWhatTheGaugeShows()
}

// admitsWhatTheGaugeShows floods, and compares what was accepted with the gauge before, and
// what came back meanwhile.
func (tb *tab) admitsWhatTheGaugeShows() {
	tb.t.Helper()
	var got struct{ Level, Accepted, Ms float64 }
	tb.call(func(ctx context.Context) (err error) {
		got, err = chromedp.Run(ctx, chromedp.Evaluate[struct{ Level, Accepted, Ms float64 }](`(async () => {
			const outcome = document.getElementById("outcome");
			outcome.hidden = true;
			const drawn = new Promise((resolve) => new MutationObserver(resolve).observe(document.getElementById("gauge"), { subtree: true, attributes: true, attributeFilter: ["style"] }));
			if (`+left+` < 10) await drawn; // just now: what has come back since the last drawing is not on it
			const Level = `+fills+`, start = performance.now();
			document.getElementById("flood").click();
			while (outcome.hidden) await new Promise((resolve) => setTimeout(resolve, 10));
			return { Level, Accepted: Number(document.getElementById("accepted").textContent), Ms: performance.now() - start };
		})()`, chromedp.EvalAwaitPromise))
		return err
	})
	// The gauge was drawn just before, in steps of 0.01, from what the server had said up to 100 ms before.
	back := (got.Ms + 200) / 3000
	if got.Accepted > got.Level+back+0.01 || got.Accepted < float64(int(got.Level-0.01)) {
		tb.t.Errorf("the gauge shows %.2f; %.0f were accepted within %.0f ms", got.Level, got.Accepted, got.Ms)
	}
}
