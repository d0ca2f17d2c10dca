package client_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
)

// counting is a router whose handlers count how often they handle each message.
type counting struct {
	*router.Router
	mu     sync.Mutex
	counts map[string]int
}

func (s *counting) handled(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[id]++
}

func (s *counting) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[id]
}

// newCounting has the request "do", the event "note", and "join", which subscribes to a topic with history.
func newCounting() *counting {
	s := &counting{counts: make(map[string]int)}
	s.Router = router.New(router.Options{
		Authenticate: func(r *http.Request) (ingress.Identity, error) { return ingress.Identity{User: ingress.Token(r)}, nil },
		Backend:      adapters.Backend{Idempotency: memory.NewIdempotency(), Broker: memory.NewBroker()},
	})
	s.History("room:*")
	router.RPC(s.Router, "do", func(_ *router.Context, m text) (text, error) {
		s.handled(m.Text)
		return m, nil
	})
	router.On(s.Router, "note", func(_ *router.Context, m text) error { s.handled(m.Text); return nil })
	router.RPC(s.Router, "join", func(c *router.Context, m text) (struct{}, error) { return struct{}{}, c.Subscribe(m.Text) })
	return s
}

func asAnn(o client.Options) client.Options {
	o.Token = func(context.Context) (string, error) { return "ann", nil }
	return o
}

// cut is a server behind a network that can be cut.
func cut(t *testing.T) (*counting, *redistest.Proxy) {
	t.Helper()
	s := newCounting()
	return s, redistest.StartProxy(t, serve(t, "127.0.0.1:0", s.Router).addr)
}

// exchange is more than the bytes of a request and its reply, over a new connection.
const exchange = 1000

// checkOutcome compares what a request returned with how often it was handled.
func checkOutcome(t *testing.T, s *counting, id string, keyed bool, err error) {
	t.Helper()
	n := s.count(id)
	switch {
	case err == nil && n != 1:
		t.Errorf("%s was answered and handled %d times", id, n)
	case err != nil && (keyed || !errors.Is(err, client.ErrUnknownOutcome)):
		t.Errorf("%s failed with %v", id, err)
	case n > 1:
		t.Errorf("%s was handled %d times", id, n)
	}
}

func TestRequestsCutAtEachByte(t *testing.T) {
	t.Parallel()
	s, proxy := cut(t)
	c := dial(t, proxy.Addr, asAnn(client.Options{}))
	unknown, known := 0, 0
	odd := mathrand.Int64N(2) // the requests at even or at odd bytes have keys
	for n := int64(1); n < 300; n++ {
		for _, key := range []string{"", rand.Text()}[(n+odd)%2:][:1] {
			id := fmt.Sprint("cut at ", n, " with the key ", key)
			proxy.CutAfter(n)
			_, err := client.Request[text](within(t), c, "do", text{id}, client.MessageOptions{IdempotencyKey: key})
			proxy.Mend()
			checkOutcome(t, s, id, key != "", err)
			if err != nil {
				unknown++
			} else {
				known++
			}
		}
	}
	if unknown < 50 || known < 150 {
		t.Errorf("%d outcomes are unknown and %d known: the cuts are at the wrong places", unknown, known)
	}
}

func TestRandomCuts(t *testing.T) {
	t.Parallel()
	s, proxy := cut(t)
	c := dial(t, proxy.Addr, asAnn(client.Options{}))
	ctx, stop := context.WithCancel(context.Background())
	var cutting, senders sync.WaitGroup
	cutting.Go(func() {
		for ctx.Err() == nil {
			connected := c.State().Connections
			proxy.CutAfter(mathrand.Int64N(5 * exchange))
			_, _ = c.Wait(ctx, func(s client.State) bool { return s.Connections > connected })
		}
	})
	outcomes := make(chan error, 1000)
	for sender := range 8 {
		senders.Go(func() {
			for n := range 60 {
				id, o := fmt.Sprint("sender ", sender, ", message ", n), client.MessageOptions{}
				if n%3 == 0 {
					o.IdempotencyKey = rand.Text()
				}
				if n%5 == 4 {
					err := client.Send(within(t), c, "note", text{id}, o)
					if err != nil && (o.IdempotencyKey != "" || !errors.Is(err, client.ErrUnknownOutcome)) {
						t.Errorf("%s failed with %v", id, err)
					}
					continue
				}
				_, err := client.Request[text](within(t), c, "do", text{id}, o)
				checkOutcome(t, s, id, o.IdempotencyKey != "", err)
				outcomes <- err
			}
		})
	}
	senders.Wait()
	stop()
	cutting.Wait()
	proxy.Mend()
	close(outcomes)
	unknown := 0
	for err := range outcomes {
		if err != nil {
			unknown++
		}
	}
	t.Logf("%d connections, %d unknown outcomes", c.State().Connections, unknown)
	if unknown == 0 || c.State().Connections < 5 {
		t.Error("nothing was cut")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.counts {
		if n > 1 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
}

// Each event of a topic with history comes once and in order, wherever the connection is cut. There is no gap: the
// log has all events.
func TestEventsComeOnceOverCuts(t *testing.T) {
	t.Parallel()
	s, proxy := cut(t)
	received := make(chan int, 10_000)
	c := dial(t, proxy.Addr, asAnn(client.Options{
		OnGap: func(g client.Gap) { t.Errorf("gap: %+v", g) },
		Setup: func(c *client.Client) {
			client.On(c, "said", func(_ context.Context, m text, meta client.Meta) {
				n, _ := strconv.Atoi(m.Text)
				received <- n
				if meta.Topic != "room:a" || meta.Pos == "" {
					t.Errorf("event %d has %+v", n, meta)
				}
			})
		},
	}))
	if _, err := client.Request[struct{}](within(t), c, "join", text{"room:a"}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for cutAt := int64(1); cutAt < 900; cutAt += 1 + mathrand.Int64N(3) {
		proxy.CutAfter(cutAt)
		for range 3 {
			n++
			if err := s.Publish(context.Background(), "room:a", "said", text{strconv.Itoa(n)}); err != nil {
				t.Fatal(err)
			}
		}
		for want := n - 2; want <= n; want++ {
			select {
			case got := <-received:
				if got != want {
					t.Fatalf("cut at %d: got event %d, want %d", cutAt, got, want)
				}
			case <-within(t).Done():
				t.Fatalf("cut at %d: event %d does not come; %+v", cutAt, want, c.State())
			}
		}
		proxy.Mend()
	}
	if c.State().Connections < 100 {
		t.Errorf("%d connections: nothing was cut", c.State().Connections)
	}
}
