package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

// The modules of the page, tested where they run.

// script runs JavaScript in the page and reports what it found wrong.
func script(t *testing.T, source string) {
	t.Helper()
	s := startChat(t)
	tb := openTab(t, s.url(), "script")
	var problems []string
	tb.call(func(ctx context.Context) (err error) {
		problems, err = chromedp.Run(ctx, chromedp.Evaluate[[]string](
			"(async () => { const problems = []; const check = (what, ok) => ok || problems.push(what);"+source+"\nreturn problems; })()", chromedp.EvalAwaitPromise))
		return err
	})
	for _, p := range problems {
		t.Error(p)
	}
}

func TestBucketDoesTheServersArithmetic(t *testing.T) {
	script(t, `
		const { Bucket } = await import("/bucket.js");
		let now = 0;
		performance.now = () => now;
		const bucket = new Bucket({ capacity: 10, refill: 1, perMs: 2000, left: 4.5 });
		const near = (x, y) => Math.abs(x - y) < 1e-9;
		check("starts with what is left", near(bucket.level(), 4.5) && near(bucket.untilNext(), 1000));
		bucket.accepted();
		check("a message takes one", near(bucket.level(), 3.5));
		now += 3000;
		check("time brings them back", near(bucket.level(), 5));
		now += 60000;
		check("never more than fit", near(bucket.level(), 10) && bucket.untilNext() === 0);
		bucket.refused(500);
		check("a refusal puts it right", near(bucket.level(), 0.75) && near(bucket.untilNext(), 500));
	`)
}
