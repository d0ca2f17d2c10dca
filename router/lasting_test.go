package router_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// distant is a broker that takes a while, and gives up with the context, as one beyond a network does.
type distant struct {
	memory.Broker
	pause func()
}

func (b distant) wait(ctx context.Context) error {
	b.pause()
	return ctx.Err()
}

func (b distant) Publish(ctx context.Context, m pubsub.Message) error {
	if err := b.wait(ctx); err != nil {
		return err
	}
	return b.Broker.Publish(ctx, m)
}

func (b distant) PublishCounted(ctx context.Context, m pubsub.Message) (int, error) {
	if err := b.wait(ctx); err != nil {
		return 0, err
	}
	return b.Broker.PublishCounted(ctx, m)
}

func (b distant) Append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	if err := b.wait(ctx); err != nil {
		return pubsub.Position{}, err
	}
	return b.Broker.Append(ctx, m, h, id)
}

type derived struct{}

// A handler that closes all connections of its user, its own among them, closes those of other processes as well: at any
// age of the processes, with whatever context it has.
func TestAUserSignsOutEverywhere(t *testing.T) {
	t.Parallel()
	for name, contextOf := range map[string]func(*router.Context) context.Context{
		"of the handler":    func(c *router.Context) context.Context { return c },
		"of the connection": func(c *router.Context) context.Context { return c.Conn().Context() },
		"detached":          (*router.Context).Detach,
		"derived":           func(c *router.Context) context.Context { return context.WithValue(c, derived{}, 1) },
	} {
		for _, age := range []time.Duration{0, time.Second, time.Minute} {
			t.Run(fmt.Sprint(name, ", ", age), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					shared := distant{memory.NewBroker(), func() { time.Sleep(50 * time.Millisecond) }}
					var clients []*routertest.Client
					closed := make(chan int, 1)
					for range 2 {
						r := router.New(router.Options{
							Backend: adapters.Backend{Broker: shared, ProcessTimeout: testProcessTimeout}, Authenticate: asUser, Liveness: router.Liveness{PingInterval: -1},
							Addressing: router.AddressingOptions{Enabled: true, Timeout: 10 * time.Second},
						})
						router.On(r, "signout", func(c *router.Context, _ struct{}) error {
							n, err := r.User("acme", "ann").Close(contextOf(c), errors.CloseUnauthenticated, "signed out")
							if err != nil {
								t.Errorf("closing: %v", err)
							}
							closed <- n
							return nil
						})
						for range 2 {
							clients = append(clients, routertest.New(t, r).Dial(routertest.DialOptions{Header: http.Header{"X-Tenant": {"acme"}, "X-User": {"ann"}}}))
						}
					}
					time.Sleep(age)
					clients[0].Send("signout", nil)
					if n := <-closed; n != len(clients) {
						t.Errorf("%d of %d connections were closed", n, len(clients))
					}
				})
			})
		}
	}
}

// What OnClose, or a handler whose client is gone, publishes with the context of the connection or the message reaches the
// others, with every broker. A context that the application has cancelled is respected.
func TestPublishingOutlivesTheClient(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"none", "memory", "distant"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near := memory.NewBroker()
				broker := map[string]pubsub.Broker{
					"memory": near, "distant": distant{near, func() { time.Sleep(50 * time.Millisecond) }},
				}[name]
				var r *router.Router
				closed := make(chan struct{})
				r = router.New(router.Options{
					Backend: adapters.Backend{Broker: broker}, Authenticate: asUser, Liveness: router.Liveness{PingInterval: -1},
					Addressing: router.AddressingOptions{Enabled: true},
					OnClose: func(c *router.Conn, _ router.CloseInfo) {
						if c.Identity().User != "ann" {
							return
						}
						defer close(closed)
						ctx := context.WithValue(c.Context(), derived{}, 1)
						for _, err := range []error{
							r.Publish(ctx, "room", "left", nil), r.Publish(c.Context(), "log:room", "left", nil),
							r.User("acme", "bob").Send(ctx, "left", nil),
						} {
							if err != nil && errors.CodeOf(err) != errors.Internal { // without a broker there is no history
								t.Errorf("in OnClose: %v", err)
							}
						}
						if n, err := r.User("acme", "bob").Count(ctx); n != 1 || err != nil {
							t.Errorf("in OnClose %d are counted: %v", n, err)
						}
						own, cancel := context.WithCancel(context.Background())
						cancel()
						if name == "distant" && r.Publish(own, "room", "never", nil) == nil {
							t.Error("a context that the application has cancelled has no effect")
						}
					},
				})
				if name != "none" {
					r.History("log:*")
				}
				router.On(r, "last", func(c *router.Context, _ struct{}) error {
					<-c.Done()
					return c.Publish("room", "aborted", nil)
				})
				router.On(r, "join", func(c *router.Context, _ struct{}) error { return c.Subscribe("room") })
				s := routertest.New(t, r)
				dial := func(user string) *routertest.Client {
					return s.Dial(routertest.DialOptions{Header: http.Header{"X-Tenant": {"acme"}, "X-User": {user}}})
				}
				bob, ann := dial("bob"), dial("ann")
				bob.Send("join", nil)
				ann.Send("last", nil)
				synctest.Wait()
				ann.Vanish()
				<-closed
				time.Sleep(time.Second)
				var got []string
				for _, f := range bob.Frames() {
					got = append(got, f.Type)
				}
				slices.Sort(got)
				if !slices.Equal(got, []string{"aborted", "left", "left"}) {
					t.Errorf("%v came", got)
				}
			})
		})
	}
}
