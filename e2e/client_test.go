package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

// The modules of the page, tested where they run.

// fakeSocket takes the place of WebSocket: a script plays the server.
const fakeSocket = `
	const { Client, RequestError, waitBefore } = await import("/client.js");
	const sockets = [];
	globalThis.WebSocket = class {
		constructor(url, protocols) { Object.assign(this, { url, protocols, sent: [] }); sockets.push(this); }
		send(data) { this.sent.push(JSON.parse(data)); }
		close() {}
		open() { this.onopen({}); }
		receive(frame) { this.onmessage({ data: JSON.stringify(frame) }); }
		closed(code, reason = "") { this.onclose({ code, reason }); }
	};
	const problems = [];
	const check = (what, ok) => ok || problems.push(what);
	const within = (n, low, high) => n >= low && n <= high;
`

// script runs JavaScript in the page and reports what it found wrong.
func script(t *testing.T, source string) {
	t.Helper()
	s := startChat(t)
	tb := openTab(t, s.url(), "script")
	var problems []string
	tb.call(func(ctx context.Context) (err error) {
		problems, err = chromedp.Run(ctx, chromedp.Evaluate[[]string](
			"(async () => {"+fakeSocket+source+"\nreturn problems; })()", chromedp.EvalAwaitPromise))
		return err
	})
	for _, p := range problems {
		t.Error(p)
	}
}

func TestClientHonoursWhatTheServerAsksFor(t *testing.T) {
	script(t, `
		for (const code of [1001, 1013, 4429]) {
			const client = new Client("ws://unused", "secret");
			client.start();
			const socket = sockets.at(-1);
			check("the token travels as a subprotocol", socket.protocols.includes("bearer.secret") && socket.protocols.length === 2);
			socket.open();
			const asked = performance.now();
			socket.closed(code, '{"retryAfterMs":60000}');
			check(code + ": the client waits", client.state.name === "waiting" && client.state.close.code === code);
			check(code + ": for as long as it was asked to and little more", within(client.state.retryAt - asked, 60000, 61000));

			client.retryNow();
			check(code + ": the user can retry at once", client.state.name === "connecting");
			sockets.at(-1).closed(1006);
			check(code + ": why the connection was lost is still known", client.state.close.code === code);
		}
		const banned = new Client("ws://unused");
		banned.start();
		sockets.at(-1).open();
		sockets.at(-1).closed(1008);
		check("1008: the client stays away", banned.state.name === "stopped");
	`)
}

func TestClientBacksOff(t *testing.T) {
	script(t, `
		for (let attempt = 0; attempt < 40; attempt++) {
			const ceiling = Math.min(8000, 400 * 2 ** attempt);
			check("attempt " + attempt, within(waitBefore(attempt, null), ceiling / 2, ceiling));
		}
		const waits = new Set(Array.from({ length: 20 }, () => waitBefore(5, null)));
		check("waits are jittered", waits.size > 10);
	`)
}

func TestClientMatchesAnswersToRequests(t *testing.T) {
	script(t, `
		const client = new Client("ws://unused");
		const early = await client.request("a").catch((error) => error);
		check("not connected is an error at once", early instanceof RequestError && early.code === "UNAVAILABLE");
		client.start();
		const socket = sockets.at(-1);
		socket.open();
		const [first, second] = [client.request("a", { n: 1 }), client.request("b", { n: 2 }).catch((error) => error)];
		const [a, b] = socket.sent;
		check("a request is a frame with an id", a.type === "a" && a.payload.n === 1 && a.meta.correlationId !== b.meta.correlationId);
		socket.receive({ type: "$ws:rpc-progress", meta: { correlationId: a.meta.correlationId }, data: 1 });
		socket.receive({ type: "RPC_ERROR", meta: { correlationId: b.meta.correlationId },
			payload: { code: "RESOURCE_EXHAUSTED", message: "no", retryable: true, retryAfterMs: 250 } });
		socket.receive({ type: "a.reply", meta: { correlationId: a.meta.correlationId }, payload: { ok: true } });
		check("the reply reaches its request", (await first).ok);
		const error = await second;
		check("the refusal reaches its request", error.code === "RESOURCE_EXHAUSTED" && error.retryAfterMs === 250);

		let heard = null;
		client.on("news", (payload) => { heard = payload; });
		socket.receive({ type: "news", payload: 7 });
		check("events reach their listener", heard === 7);

		const open = client.request("c").catch((error) => error);
		socket.closed(1006);
		check("a lost connection answers what is open", (await open).code === "UNAVAILABLE");
	`)
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
