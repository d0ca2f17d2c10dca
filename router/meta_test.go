package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// expectJSON reads a frame and compares it as a JSON value, and that no name in it repeats.
func (p *peer) expectJSON(want string) {
	p.t.Helper()
	f, err := p.read()
	if err != nil {
		p.t.Fatal(err)
	}
	var got, wanted any
	if err := json.Unmarshal(f.payload, &got); err != nil {
		p.t.Fatalf("got %.300q: %v", f.payload, err)
	}
	_ = json.Unmarshal([]byte(want), &wanted)
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(wanted)
	if string(g) != string(w) || len(f.payload) != len(want) {
		p.t.Fatalf("got  %.500s\nwant %.500s", f.payload, want)
	}
}

// requestWith is a request with further members of meta.
func requestWith(typ, id, meta, payload string) []byte {
	return textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q%s},"payload":%s}`, typ, id, meta, payload))
}

// What a client adds to meta is read before and after decoding, with the same result, wherever meta
// stands in the frame, in a message handled inline, in line or concurrently; the next message has none of it.
func TestOwnMeta(t *testing.T) {
	t.Parallel()
	var served *router.Router
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		served = r
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				var trace string
				if _, err := c.Meta("trace", &trace); err != nil {
					return err
				}
				c.SetValues(context.WithValue(c.Context(), traceKey{}, trace))
				if trace == "refused" {
					return errors.PermissionDenied.New("no")
				}
				return next(c)
			}
		})
		handle := func(c *router.Context, m said) (said, error) {
			if m.Text == "slow" {
				router.DetachHandlers(served)
			}
			var after string
			if _, err := c.Meta("trace", &after); err != nil {
				return said{}, err
			}
			if before, _ := c.Value(traceKey{}).(string); before != after {
				t.Errorf("before decoding the trace is %q, and after it %q", before, after)
			}
			var n int
			found, err := c.Meta("n", &n)
			return said{fmt.Sprintf("%s %v %d", after, found, n)}, err
		}
		router.RPC(r, "meta", handle)
		router.RPC(r, "meta.concurrent", handle, router.RouteOptions{Concurrent: true})
	})
	p := s.dial()
	big := strings.Repeat("x", 5000)
	for _, typ := range []string{"meta", "meta.concurrent"} {
		for _, c := range []struct{ frame, want string }{
			{`{"type":"%s","meta":{"correlationId":"1","trace":"t","n":5},"payload":{"text":""}}`, "reply 1 t true 5"},
			{`{"type":"%s","meta":{"correlationId":"2"},"payload":{"text":"slow"}}`, "reply 2  false 0"},
			{`{"type":"%s","payload":{"text":""},"meta":{"correlationId":"3","tr\u0061ce":"\u00e4"}}`, "reply 3 ä false 0"},
			{`{"type":"%s","payload":{"text":"` + big + `"},"meta":{"correlationId":"4","trace":"end","n":null}}`, "reply 4 end false 0"},
			{`{"type":"%s","payload":{"text":""},"meta":{"correlationId":"5","trace":"refused"}}`, "RPC_ERROR 5 PERMISSION_DENIED"},
			{`{"type":"%s","meta":{"correlationId":"6","trace":7},"payload":{"text":""}}`, "RPC_ERROR 6 INVALID_ARGUMENT"},
			{`{"type":"%s","meta":{"correlationId":"7","n":"x"},"payload":{"text":""}}`, "RPC_ERROR 7 INVALID_ARGUMENT"},
			{`{"type":"%s","meta":{"correlationId":"8","m":"` + strings.Repeat("x", 600) + `"},"payload":{"text":""}}`, "RPC_ERROR 8 INVALID_ARGUMENT"},
			{`{"type":"%s","other":"` + big + `","meta":{"correlationId":"9","trace":"x"},"payload":{"text":"` + big + `"}}`, "RPC_ERROR 9 INVALID_ARGUMENT"},
			{`{"type":"%s","meta":{"correlationId":"10"},"payload":{"text":""}}`, "reply 10  false 0"},
		} {
			p.write(textFrame(strings.Replace(c.frame, "%s", typ, 1)))
			if got := p.next(); got != c.want {
				t.Errorf("%.80s… is answered %q, want %q", c.frame, got, c.want)
			}
		}
	}
	p.bye()
	s.recovered()
}

// Events and replies have what the application puts into their meta; names of the protocol, and too
// much, are an error that says what to do, and nothing is sent.
func TestMetaThatIsSent(t *testing.T) {
	t.Parallel()
	flash := router.Event[said]{}
	s := serveSocket(t, router.Options{Addressing: router.AddressingOptions{Enabled: true}}, func(r *router.Router) {
		flash = router.Declare[said](r, "flash")
		router.RPC(r, "send", func(c *router.Context, m said) (said, error) {
			if err := c.Subscribe("news"); err != nil {
				return m, err
			}
			meta := router.Meta{"trace": "t1", "a": []int{1}}
			return m, errors.Join(
				c.Send("plain", m, router.SendOptions{Meta: meta}),
				c.Conn().Send("empty", nil, router.SendOptions{Meta: meta}),
				flash.Send(c, c.Conn(), m, router.PublishOptions{Meta: meta}),
				c.Publish("news", "news.one", m, router.PublishOptions{Meta: meta}),
				flash.Publish(c, "news", m, router.PublishOptions{Meta: meta}),
				r.Connection(c.Conn().ID()).Send(c, "direct", m, router.PublishOptions{Meta: meta}),
				c.SetReplyMeta("b", 2), c.SetReplyMeta("trace", "first"), c.SetReplyMeta("trace", "t2"),
			)
		})
		router.RPC(r, "bare", func(c *router.Context, _ struct{}) (struct{}, error) { return struct{}{}, c.SetReplyMeta("n", nil) })
		router.RPC(r, "bad", func(c *router.Context, m said) (said, error) {
			many := router.Meta{}
			for i := range 17 {
				many[fmt.Sprint("m", i)] = i
			}
			for says, meta := range map[string]router.Meta{
				"correlationId": {"correlationId": "x"}, "topic": {"topic": 1}, "$x": {"$x": 1}, "17 members": many,
				"512 bytes": {"long": strings.Repeat("x", 520)}, "UTF-8": {"\xff": 1}, "chan": {"a": make(chan int)},
			} {
				if err := c.Send("plain", m, router.SendOptions{Meta: meta}); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("Send with %.50v: %v, want %s", meta, err, says)
				}
				if err := c.Publish("news", "plain", m, router.PublishOptions{Meta: meta}); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("Publish with %.50v: %v, want %s", meta, err, says)
				}
				var failed error
				for name, value := range meta {
					failed = errors.Join(failed, c.SetReplyMeta(name, value))
				}
				if failed == nil {
					t.Errorf("SetReplyMeta with %.50v succeeds", meta)
				}
			}
			return m, c.Send("plain", m, router.SendOptions{}, router.SendOptions{})
		})
		router.RPC(r, "fails", func(c *router.Context, _ struct{}) (said, error) {
			return said{}, errors.Join(c.SetReplyMeta("a", 1), errors.NotFound.New("none"))
		})
	})
	p := s.dial()
	p.write(requestWith("send", "1", "", `{"text":"x"}`))
	const meta = `"meta":{"a":[1],"trace":"t1"}`
	for _, typ := range []string{"plain", "", "flash", "news.one", "flash", "direct"} {
		if typ == "" {
			p.expectJSON(`{"type":"empty",` + meta + `}`)
			continue
		}
		p.expectJSON(`{"type":"` + typ + `",` + meta + `,"payload":{"text":"x"}}`)
	}
	p.expectJSON(`{"type":"send.reply","meta":{"correlationId":"1","b":2,"trace":"t2"},"payload":{"text":"x"}}`)
	p.write(requestWith("bare", "2", "", `{}`))
	p.expectJSON(`{"type":"bare.reply","meta":{"correlationId":"2","n":null}}`)
	p.write(requestWith("bad", "3", "", `{"text":"x"}`))
	p.expect("RPC_ERROR 3 INTERNAL")
	p.write(requestWith("fails", "4", "", `{}`))
	p.expectJSON(`{"type":"RPC_ERROR","meta":{"correlationId":"4"},"payload":{"code":"NOT_FOUND","message":"none","retryable":false}}`)
	p.write(echo("5", "y"))
	p.expectJSON(`{"type":"echo.reply","meta":{"correlationId":"5"},"payload":{"text":"y"}}`)
	p.bye()
	s.recovered()
}

// An answer that is repeated has the meta of the first one; the client's own meta does not make
// another message of it.
func TestRepeatedAnswersHaveTheirMeta(t *testing.T) {
	t.Parallel()
	handled := 0
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Idempotency: memory.NewIdempotency()},
	}, func(r *router.Router) {
		router.RPC(r, "order", func(c *router.Context, m said) (said, error) {
			handled++
			var trace string
			_, err := c.Meta("trace", &trace)
			return m, errors.Join(err, c.SetReplyMeta("trace", trace), c.SetReplyMeta("n", handled))
		})
		router.RPC(r, "bare", func(c *router.Context, _ struct{}) (struct{}, error) {
			return struct{}{}, c.SetReplyMeta("n", 1)
		})
	})
	p := s.dial()
	for i, id := range []string{"a", "bb", "c"} {
		p.write(requestWith("order", id, fmt.Sprintf(`,"idempotencyKey":"k","trace":"t%d"`, i), `{"text":"x"}`))
		p.expectJSON(`{"type":"order.reply","meta":{"correlationId":"` + id + `","n":1,"trace":"t0"},"payload":{"text":"x"}}`)
		p.write(requestWith("bare", id, `,"idempotencyKey":"k2"`, `{}`))
		p.expectJSON(`{"type":"bare.reply","meta":{"correlationId":"` + id + `","n":1}}`)
	}
	p.bye()
	s.recovered()
}

// Meta crosses a broker, in a large message too.
func TestMetaOverABroker(t *testing.T) {
	t.Parallel()
	broker := memory.NewBroker()
	var servers []*socketServer
	for range 2 {
		servers = append(servers, serveSocket(t, router.Options{Backend: adapters.Backend{Broker: broker}}, subscribing))
	}
	p := servers[1].dial()
	p.write(join1("news"))
	p.expect("reply j news")
	meta := router.Meta{"trace": strings.Repeat("t", 480)}
	for _, text := range []string{"a", strings.Repeat("x", 10_000)} {
		if err := servers[0].r.Publish(context.Background(), "news", "flash", said{text}, router.PublishOptions{Meta: meta}); err != nil {
			t.Fatal(err)
		}
		p.expectJSON(fmt.Sprintf(`{"type":"flash","meta":{"trace":%q},"payload":{"text":%q}}`, meta["trace"], text))
	}
	p.bye()
	for _, s := range servers {
		if n := s.r.Stats().Foreign; n != 0 {
			t.Errorf("%d messages were dropped", n)
		}
	}
}

// So does that of a topic with history, beside the topic and the position.
func TestMetaOfTopicsWithHistory(t *testing.T) {
	t.Parallel()
	s := withHistory(t, newFaultyLog(), router.Options{}, router.HistoryOptions{})
	p := s.dial()
	p.write(join1("room:a"))
	for range 2 { // $ws:subscribed and the reply
		p.next()
	}
	for _, text := range []string{"a", strings.Repeat("x", 10_000)} {
		meta := router.Meta{"trace": strings.Repeat("t", 480)}
		if err := s.r.Publish(context.Background(), "room:a", "heard", said{text}, router.PublishOptions{Meta: meta}); err != nil {
			t.Fatal(err)
		}
		f, err := p.read()
		var got struct {
			Type    string
			Meta    map[string]string
			Payload said
		}
		if err == nil {
			err = json.Unmarshal(f.payload, &got)
		}
		if err != nil || got.Type != "heard" || got.Payload.Text != text || got.Meta["trace"] != meta["trace"] || got.Meta["topic"] != "room:a" || got.Meta["pos"] == "" || strings.Count(string(f.payload), `"meta":`) != 1 {
			t.Errorf("got %.700q, %v", f.payload, err)
		}
	}
	p.bye()
}
