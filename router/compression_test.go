package router_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/router"
)

// countedListener counts what is written to its connections.
type countedListener struct {
	net.Listener
	written atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{nc, l}, nil
}

type countedConn struct {
	net.Conn
	l *countedListener
}

func (c countedConn) Write(b []byte) (int, error) {
	c.l.written.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// A client that agreed on compression gets the same messages in fewer bytes:
// replies and published messages alike, beside clients that did not agree. The
// client is the library's own.
func TestCompression(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("all work and no play ", 500)
	r := router.New(router.Options{Compression: true})
	router.RPC(r, "echo", func(_ *router.Context, m said) (said, error) { return m, nil })
	router.RPC(r, "join", func(c *router.Context, _ struct{}) (struct{}, error) { return struct{}{}, c.Subscribe("room") })
	router.On(r, "say", func(c *router.Context, m said) error { return c.Publish("room", "said", m) })
	server := httptest.NewUnstartedServer(r)
	counted := &countedListener{Listener: server.Listener}
	server.Listener = counted
	server.Start()
	t.Cleanup(server.Close)

	for _, mode := range []struct {
		name string
		mode websocket.CompressionMode
		most int64 // bytes for three messages of 10 kB
	}{
		{"agreed", websocket.CompressionNoContextTakeover, 3 << 10},
		{"agreed, the client would keep its context", websocket.CompressionContextTakeover, 3 << 10},
		{"not agreed", websocket.CompressionDisabled, 64 << 10},
	} {
		t.Run(mode.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ws, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(server.URL, "http"), &websocket.DialOptions{
				CompressionMode: mode.mode, CompressionThreshold: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.CloseNow()
			ws.SetReadLimit(-1)
			agreed := strings.Contains(res.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate")
			if agreed != (mode.mode != websocket.CompressionDisabled) {
				t.Fatalf("compression agreed on: %v", agreed)
			}
			send := func(frame string) {
				t.Helper()
				if err := ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
					t.Fatal(err)
				}
			}
			expect := func(typ, text string) {
				t.Helper()
				_, data, err := ws.Read(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var f struct {
					Type    string
					Payload said
				}
				if err := json.Unmarshal(data, &f); err != nil || f.Type != typ || f.Payload.Text != text {
					t.Fatalf("got %.80s…, want %s with %d bytes", data, typ, len(text))
				}
			}
			send(`{"type":"join","meta":{"correlationId":"j"}}`)
			expect("join.reply", "")
			before := counted.written.Load()
			send(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"` + long + `"}}`)
			expect("echo.reply", long)
			send(`{"type":"say","payload":{"text":"` + long + `"}}`)
			expect("said", long)
			send(`{"type":"say","payload":{"text":"short"}}`)
			expect("said", "short")
			send(`{"type":"say","payload":{"text":"` + long + `"}}`)
			expect("said", long)
			if n := counted.written.Load() - before; n > mode.most || mode.mode == websocket.CompressionDisabled && n < 30_000 {
				t.Errorf("%d bytes were written for three messages of %d", n, len(long))
			}
		})
	}
}
