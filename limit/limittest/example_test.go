package limittest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The test of a store.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestStore(t *testing.T)
		limittest.Run(t, func(t *testing.T) limittest.Subject {
			clock := limittest.NewClock()
			return limittest.Subject{
				Store: memory.NewStore(memory.Options{Now: clock.Now}),
				Clock: clock,
			}
		})
	}
}

// limits are those of the application. The server has them over its store, and a test over one with
// a clock.
func limits(store limit.Store) ingress.Middleware {
	messages := limit.New(store, limit.SlidingLog{Limit: 10, Window: time.Minute}, limit.Options{Name: "messages"})
	return ratelimit.New(messages, ratelimit.PerUser)
}

// The eleventh message within a minute is refused, and accepted after it. Nothing sleeps.
func ExampleClock() {
	clock := limittest.NewClock()
	handle := limits(memory.NewStore(memory.Options{Now: clock.Now}))(ingress.Pass)
	message := &ingress.Context{Type: "chat.send", Identity: ingress.Identity{User: "ann"}}
	for range 10 {
		if err := handle(message); err != nil {
			fmt.Println(err)
		}
	}
	clock.Advance(59 * time.Second)
	fmt.Println(errors.From(handle(message)).Code)
	clock.Advance(time.Second)
	fmt.Println(handle(message))
	// Output:
	// RESOURCE_EXHAUSTED
	// <nil>
}

// The same with a client and a whole server.
func TestAServerByAClock(t *testing.T) {
	clock := limittest.NewClock()
	r := router.New(router.Options{Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{User: "ann"}, nil }})
	r.Use(limits(memory.NewStore(memory.Options{Now: clock.Now})))
	router.RPC(r, "chat.send", func(*router.Context, string) (bool, error) { return true, nil })

	ann := routertest.New(t, r).Dial()
	for range 10 {
		routertest.ExpectReply[bool](ann.Request("chat.send", "hello"))
	}
	clock.Advance(59 * time.Second)
	if f := ann.Request("chat.send", "hello").ExpectError(errors.ResourceExhausted); f.RetryAfterMs == nil || *f.RetryAfterMs != 1000 {
		t.Errorf("%+v", f)
	}
	clock.Advance(time.Second)
	routertest.ExpectReply[bool](ann.Request("chat.send", "hello"))
}
