package gate_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

// The gate before a handler of another library, and before a router that does not
// know of it.
func TestGateAsMiddleware(t *testing.T) {
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := bearer(r)
		if err == nil {
			err = gate.Identify(r, id)
		}
		if err != nil {
			ingress.Refuse(w, r, err)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			typ, m, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), typ, m) != nil {
				return
			}
		}
	})
	routed := router.New(router.Options{Authenticate: func(r *http.Request) (ingress.Identity, error) {
		id, err := bearer(r)
		if err == nil {
			err = gate.Identify(r, id)
		}
		return id, err
	}})
	for name, handler := range map[string]http.Handler{"another library": other, "a router": routed} {
		t.Run(name, func(t *testing.T) {
			h := &house{t: t, store: memory.NewStore(), r: routed}
			h.gate = gate.New(h.store, gate.Options{PerIP: many, PerIdentity: many, MaxPerUser: 2, OnRefused: func(gate.Refusal) {}})
			h.addr = serve(t, &http.Server{Handler: h.gate.Handler(handler)})

			first := h.expect(101, "Authorization: Bearer user-ann")
			h.expect(101, "Authorization: Bearer user-ann")
			h.expect(429, "Authorization: Bearer user-ann")
			h.expect(401, "Authorization: Bearer unknown")
			if n := h.store.Stats().Held; n != 2*3 {
				t.Errorf("%d leases are held, want 6", n)
			}
			res, err := http.Get("http://" + h.addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusUpgradeRequired {
				t.Errorf("a plain request is answered %s", res.Status)
			}
			_ = first.CloseNow()
			eventually(t, "a lease", func() bool { return h.store.Stats().Held == 3 })
			_ = h.expect(101, "Authorization: Bearer user-ann").Close(websocket.StatusNormalClosure, "")
			eventually(t, "a lease", func() bool { return h.store.Stats().Held == 3 })
		})
	}
}

// What a library behind the gate takes for a handshake, the gate does too.
func TestGateRecognizesTheHandshakesOfTheLibrary(t *testing.T) {
	h := &house{t: t, store: memory.NewStore()}
	h.gate = gate.New(h.store, gate.Options{PerIP: many, PerIdentity: many, MaxPerIP: 1, OnRefused: func(gate.Refusal) {}})
	h.addr = serve(t, &http.Server{Handler: h.gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			defer c.CloseNow()
			_, _, _ = c.Read(r.Context())
		}
	}))})
	h.expect(101)
	for _, upgrade := range []string{"WebSocket", "h2c, websocket", "h2c\r\nUpgrade: websocket", "websocket\u00a0", "web\u017focket", ",websocket,"} {
		nc, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: "+upgrade+"\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("with Upgrade: %q a second one is answered %s", upgrade, res.Status)
		}
	}
}

func TestIdentifyOutsideOfAGate(t *testing.T) {
	if err := gate.Identify(&http.Request{}, ingress.Identity{User: "ann"}); errors.CodeOf(err) != errors.Internal {
		t.Errorf("%v; a limit that is not there must be noticed", err)
	}
}
