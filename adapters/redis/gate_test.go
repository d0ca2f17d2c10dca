package redis_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/redis"
	wserrors "github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

// house is a server of WebSockets on a real socket, with a gate whose limits are in
// Redis.
type house struct {
	t    *testing.T
	addr string
	r    *router.Router
	gate *gate.Gate
}

const (
	houseUser  = 3
	houseTotal = 5
)

func openHouse(t *testing.T, server *redistest.Server) *house {
	t.Helper()
	return openHouseFor(t, server, houseUser, houseTotal)
}

// openHouseFor opens one with other numbers of places.
func openHouseFor(t *testing.T, server *redistest.Server, user, total int) *house {
	t.Helper()
	fast := limit.TokenBucket{Capacity: 100_000, Refill: 1, Per: time.Hour}
	h := &house{t: t, gate: gate.New(redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{ProcessTimeout: 10 * time.Minute}), gate.Options{
		PerIP: fast, PerIdentity: fast, MaxPerUser: user, MaxTotal: total,
		OnRefused: func(gate.Refusal) {},
		Limiter:   limit.Options{Name: "gate", OnFailure: limit.FailClosed, Timeout: patience},
	})}
	h.r = router.New(router.Options{Gate: h.gate, Authenticate: func(r *http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: ingress.Token(r)}, nil
	}})
	router.RPC(h.r, "leave", func(c *router.Context, _ string) (string, error) {
		c.Conn().Close(wserrors.CloseNormal, "")
		return "", nil
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = ln.Addr().String()
	s := &http.Server{Handler: h.r, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { h.shutdown(); _ = s.Close(); <-done })
	return h
}

func (h *house) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.r.Shutdown(ctx); err != nil {
		h.t.Error(err)
	}
}

// A guest is a client's end of a connection.
type guest struct {
	t  *testing.T
	at *house
	ws *websocket.Conn
	nc net.Conn
}

// enter opens a connection as a user and demands a status.
func (h *house) enter(user string, status int) *guest {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	g := &guest{t: h.t, at: h}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (nc net.Conn, err error) {
		g.nc, err = new(net.Dialer).DialContext(ctx, network, addr)
		return g.nc, err
	}}
	defer transport.CloseIdleConnections()
	ws, res, err := websocket.Dial(ctx, "ws://"+h.addr, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{"Authorization": {"Bearer " + user}},
	})
	if res == nil || res.StatusCode != status {
		h.t.Fatalf("%s is answered %v, %v, want %d", user, res, err, status)
	}
	if err == nil {
		g.ws = ws
		h.t.Cleanup(func() { _ = ws.CloseNow() })
	}
	return g
}

func (g *guest) closes() {
	if err := g.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		g.t.Error(err)
	}
}

func (g *guest) vanishes() { _ = g.nc.Close() }

func (g *guest) resets() {
	_ = g.nc.(*net.TCPConn).SetLinger(0)
	_ = g.nc.Close()
}

// isClosed asks the server to close the connection, and waits for it.
func (g *guest) isClosed() {
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	if err := g.ws.Write(ctx, websocket.MessageText, []byte(`{"type":"leave","meta":{"correlationId":"1"},"payload":""}`)); err != nil {
		g.t.Error(err)
	}
	for {
		if _, _, err := g.ws.Read(ctx); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				g.t.Error(err)
			}
			return
		}
	}
}

// Two servers over one Redis share what a user and all may open, and a place is given
// back however its connection ends, to be taken at either.
func TestGatesShareTheirPlaces(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := openHouse(t, server), openHouse(t, server)
	store := redis.NewStore(storeClient(t, server.Addr))
	expect := func(ann, total int64) {
		t.Helper()
		for _, c := range []struct {
			name string
			key  limit.Key
			want int64
		}{
			{"gate/open-user", limit.KeyOf("", "ann"), ann},
			{"gate/open-total", limit.KeyOf("all"), total},
			{"gate/open-ip", limit.KeyOf("127.0.0.1"), total},
		} {
			h := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 1, Limiter: limit.Options{Name: c.name}})
			eventually(t, fmt.Sprintf("%d places of %s are held", c.want, c.name), func() bool {
				n, err := h.Held(t.Context(), c.key)
				if err != nil {
					t.Fatal(err)
				}
				return n == c.want
			})
		}
	}

	guests := []*guest{a.enter("ann", 101), b.enter("ann", 101), a.enter("ann", 101)}
	expect(3, 3)
	a.enter("ann", 429)
	b.enter("ann", 429)
	expect(3, 3) // what was refused as a user holds no other place either
	bobs := []*guest{b.enter("bob", 101), a.enter("bob", 101)}
	expect(3, houseTotal)
	a.enter("eve", 503)
	b.enter("eve", 503)
	expect(3, houseTotal)

	for i, end := range []func(*guest){(*guest).closes, (*guest).vanishes, (*guest).resets, (*guest).isClosed} {
		g := guests[0]
		end(g)
		expect(2, houseTotal-1)
		guests = append(guests[1:], []*house{a, b}[i%2].enter("ann", 101))
		expect(3, houseTotal)
		a.enter("ann", 503) // in all there are no more, and so there are for her
	}

	// A server that is shut down gives all of its places back, and none of another's.
	atB := int64(0)
	for _, g := range guests {
		_ = g.ws.CloseRead(t.Context()) // answers a close frame
		if g.at == b {
			atB++
		}
	}
	_ = bobs[1].ws.CloseRead(t.Context())
	a.shutdown()
	expect(atB, atB+1)
	bobs[0].closes()
	expect(atB, atB)
	b.shutdown()
	expect(0, 0)
	if held := held(server); len(held) != 0 {
		t.Errorf("Redis keeps %q", held)
	}
}

// held are the keys of slots.
func held(server *redistest.Server) (held []string) {
	for _, key := range keys(server) {
		if strings.HasSuffix(key, "~held") {
			held = append(held, key)
		}
	}
	return held
}

// However a client leaves while it is being let in, none of its places is held after
// it: a release never comes before the acquisition it belongs to.
func TestAbortedHandshakesHoldNoPlaces(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	h := openHouseFor(t, server, 1000, 1000)
	const clients, aborts = 24, 250
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() {
			for i := range aborts {
				nc, err := net.Dial("tcp", h.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer ann\r\n\r\n")
				pause(rand.N(4 * time.Millisecond)) // it leaves at any point
				if i%2 == 0 {
					_ = nc.(*net.TCPConn).SetLinger(0) // a reset
				}
				_ = nc.Close()
			}
		})
	}
	wait.Wait()
	h.shutdown()
	// The server may read a request long after its client has left.
	eventually(t, "no places are held, and none are to be renewed or released", func() bool {
		return len(held(server)) == 0 && h.gate.Stats().Open == 0
	})
}
