package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

// A page may send its token as the only subprotocol or next to another one, and sees why it is
// refused.
func TestPagesWithTokens(t *testing.T) {
	nightly(t)
	s := startChat(t)
	tb := openTab(t, s.url(), "page")
	const refused = `closed 4401 {"retryAfterMs":null,"message":"connect with a random token of 16 to 64 characters as the subprotocol bearer.<token>"}`
	for _, c := range []struct{ protocols, want string }{
		{`["bearer.0123456789abcdef"]`, "open, selected bearer.0123456789abcdef"},
		{`["bearer.0123456789abcdef", "wskit"]`, "open, selected wskit"},
		{`["wskit", "bearer.0123456789abcdef"]`, "open, selected wskit"},
		{`["bearer.short"]`, refused},
		{`["wskit", "bearer.short"]`, refused},
		{`[]`, refused},
	} {
		var got string
		tb.call(func(ctx context.Context) (err error) {
			got, err = chromedp.Run(ctx, chromedp.Evaluate[string](`new Promise((done) => {
				const ws = new WebSocket(location.origin.replace("http", "ws") + "/ws", `+c.protocols+`);
				let selected;
				ws.onopen = () => { selected = ws.protocol; setTimeout(() => ws.close(1000), 200); };
				ws.onclose = (e) => done(e.code === 1000 ? "open, selected " + selected : "closed " + e.code + " " + e.reason);
			})`, chromedp.EvalAwaitPromise))
			return err
		})
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.protocols, got, c.want)
		}
	}
}
