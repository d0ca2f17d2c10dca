package gate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// raw sends bytes on a connection of its own and returns the status of the answer.
func (h *house) raw(send string) int {
	h.t.Helper()
	nc, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, send); err != nil {
		h.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		h.t.Fatalf("%.80q: %v", send, err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// echoes checks that an open connection is served.
func (h *house) echoes(c *websocket.Conn) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"type":"echo","meta":{"correlationId":"1"},"payload":"hi"}`)); err != nil {
		h.t.Fatal(err)
	}
	_, m, err := c.Read(ctx)
	if err != nil || !strings.Contains(string(m), `"hi"`) {
		h.t.Fatalf("answered %s, %v", m, err)
	}
}

const handshake = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// What is no handshake is answered, acquires no lease, and leaves the connections that
// are open alone.
func TestBadOpenings(t *testing.T) {
	h := open(t, gate.Options{PerIP: many, AcceptRefused: true})
	there := h.expect(101)
	for name, c := range map[string]struct {
		send   string
		status int
	}{
		"a good one":            {handshake, 101},
		"wrong origin":          {handshake + "Origin: http://evil.test\r\n", 403},
		"wrong method":          {strings.Replace(handshake, "GET", "POST", 1), 426},
		"no upgrade":            {strings.Replace(handshake, "Upgrade: websocket", "Upgrade: h2c", 1), 426},
		"wrong version":         {strings.Replace(handshake, "13", "8", 1), 400},
		"old HTTP":              {strings.Replace(handshake, "HTTP/1.1", "HTTP/1.0", 1), 426},
		"no key":                {strings.Replace(handshake, "-Key", "-Kex", 1), 400},
		"a short key":           {strings.Replace(handshake, "dGhl", "", 1), 400},
		"no connection upgrade": {strings.Replace(handshake, "Connection: Upgrade", "Connection: close", 1), 426},
		"no HTTP":               {"\x16\x03\x01\r\n", 400},
		"an oversized header":   {handshake + "Cookie: " + strings.Repeat("x", 2<<20) + "\r\n", 431},
		"a thousand headers":    {handshake + strings.Repeat("X-Forwarded-For: 1.1.1.1\r\n", 1000), 101},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			if status := h.raw(c.send + "\r\n"); status != c.status {
				t.Errorf("answered %d, want %d", status, c.status)
			}
			eventually(t, "its leases", func() bool { return h.store.Stats().Held == 2 })
			h.echoes(there)
		})
	}
	h.t = t
}

// A page of another site cannot use up what its visitor may open.
func TestForeignPagesAreNotCharged(t *testing.T) {
	h := open(t, gate.Options{})
	for range 30 {
		h.expect(403, "Origin: http://evil.test")
	}
	for range 5 {
		h.expect(101)
	}
}

// Handshakes that never end (slowloris) acquire no lease, block no other client, and are hung
// up on when the server's ReadHeaderTimeout is over.
func TestHalfOpenHandshakes(t *testing.T) {
	h := open(t, gate.Options{PerIP: many, MaxPerIP: 2})
	there := h.expect(101)
	slow := &http.Server{Handler: h.r, ReadHeaderTimeout: 500 * time.Millisecond}
	addr := serve(t, slow)
	var all []net.Conn
	for i := range 300 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = io.WriteString(nc, handshake[:i%len(handshake)])
		all = append(all, nc)
	}
	h.echoes(there)
	if n := h.store.Stats().Held; n != 2 {
		t.Errorf("%d leases are held, want those of the one connection", n)
	}
	_ = h.expect(101).CloseNow()
	for _, nc := range all {
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, nc); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("a handshake that does not come is waited for")
			}
		}
	}
	h.echoes(there)
}

// Handshakes with a body that never comes are answered and hung up on, and acquire no lease,
// through a router's gate and through Gate.Handler. The server has no timeouts.
func TestHandshakesWithABodyAcquireNoLease(t *testing.T) {
	for name, serving := range map[string]func(h *house) http.Handler{
		"gate": func(h *house) http.Handler { return h.r },
		"handler": func(h *house) http.Handler {
			return h.gate.Handler(router.New())
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, gate.Options{PerIP: many, MaxPerIP: 5})
			addr := serve(t, &http.Server{Handler: serving(h)})
			var clients sync.WaitGroup
			for range 600 {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				clients.Go(func() {
					defer nc.Close()
					_, _ = io.WriteString(nc, handshake+"Content-Length: 9\r\n\r\n")
					_ = nc.SetReadDeadline(time.Now().Add(patience))
					answer, err := io.ReadAll(nc)
					if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
						t.Errorf("answered %.20q (%v)", answer, err)
					}
				})
			}
			clients.Wait()
			if n := h.store.Stats().Held; n != 0 {
				t.Errorf("%d leases are held", n)
			}
		})
	}
}

// Many clients at once get exactly the leases that are free; all others are
// answered, and nothing of them stays.
func TestThousandUpgradesAtOnce(t *testing.T) {
	const crowd, leases = 1000, 50
	h := open(t, gate.Options{PerIP: many, MaxPerIP: leases + 1})
	there := h.expect(101)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var in, refused atomic.Int64
	start := make(chan struct{})
	leave := make(chan struct{})
	var done, answered sync.WaitGroup
	answered.Add(crowd)
	for range crowd {
		done.Go(func() {
			<-start
			nc, err := net.Dial("tcp", h.addr)
			if err != nil {
				t.Error(err)
				answered.Done()
				return
			}
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(nc, handshake+"\r\n")
			res, err := http.ReadResponse(bufio.NewReaderSize(nc, 512), nil)
			switch {
			case err != nil:
				t.Error(err)
			case res.StatusCode == 101:
				in.Add(1)
			case res.StatusCode == 429:
				refused.Add(1)
			default:
				t.Errorf("answered %s", res.Status)
			}
			answered.Done()
			<-leave
		})
	}
	close(start)
	answered.Wait()
	h.echoes(there)
	if in.Load() != leases || refused.Load() != crowd-leases {
		t.Errorf("%d came in and %d were refused, want %d and %d", in.Load(), refused.Load(), leases, crowd-leases)
	}
	if n := h.store.Stats().Held; n != 2*(leases+1) {
		t.Errorf("%d leases are held, want %d", n, 2*(leases+1))
	}
	close(leave)
	done.Wait()
	eventually(t, "the crowd to be gone", func() bool { return h.store.Stats().Held == 2 && h.r.Stats().Connections == 1 })
	eventually(t, "the memory to be given back", func() bool { return heap()-before < crowd*4<<10 })
	h.echoes(there)
}

// All that is kept for a connection is gone when it ends: its topics, its leases, and
// what its user's messages have used as soon as that is full again.
func TestNothingOfAConnectionStays(t *testing.T) {
	const connections = 40
	store := memory.NewStore()
	messages := limit.New(store, limit.TokenBucket{Capacity: 10, Refill: 1000, Per: time.Second})
	gate := gate.New(store, gate.Options{PerIP: many, PerIdentity: many})
	r := router.New(router.Options{Gate: gate, Authenticate: bearer, Backend: adapters.Backend{Broker: memory.NewBroker()}})
	r.Use(ratelimit.New(messages, ratelimit.PerUserOrIPPerType))
	router.RPC(r, "echo", func(c *router.Context, m string) (string, error) {
		return m, c.Subscribe("own:" + c.Identity.User)
	})
	h := &house{t: t, store: store, gate: gate, r: r, addr: serve(t, &http.Server{Handler: r})}
	for range 3 {
		var all []*websocket.Conn
		for i := range connections {
			c := h.expect(101, fmt.Sprintf("Authorization: Bearer user-%d", i))
			h.echoes(c)
			all = append(all, c)
		}
		if s := store.Stats(); s.Held != 3*connections || r.Stats().Topics != connections {
			t.Errorf("%d leases and %d topics of %d connections", s.Held, r.Stats().Topics, connections)
		}
		for i, c := range all {
			if i%2 == 0 {
				_ = c.CloseNow()
			} else {
				_ = c.Close(websocket.StatusNormalClosure, "")
			}
		}
		eventually(t, "everything to be gone", func() bool {
			return store.Stats().Held == 0 && r.Stats().Topics == 0 && r.Stats().Connections == 0
		})
	}
	// Keys of rates are dropped when they are full, by those that come after.
	if n, most := store.Stats().Keys, 2*connections+1; n > most {
		t.Errorf("the store keeps %d keys of %d users, want no more than %d", n, connections, most)
	}
}
