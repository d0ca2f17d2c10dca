package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// A client follows what is left of its limits, and waits before it is refused.
func ExampleFollowLimits() {
	r := router.New()
	r.Use(ratelimit.New(
		limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 3, Refill: 1, Per: 100 * time.Millisecond}), ratelimit.PerUserOrIP, ratelimit.Options{Announce: "messages"}))
	router.RPC(r, "say", func(_ *router.Context, text string) (string, error) { return text, nil })
	s := httptest.NewServer(r)
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer func() { _ = r.Shutdown(ctx) }()

	c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	limits := client.FollowLimits(c, "say")
	for range 6 {
		if err := limits.Wait(ctx, "say"); err != nil {
			log.Fatal(err)
		}
		if _, err := client.Request[string](ctx, c, "say", "hi"); err != nil {
			log.Fatal(err) // does not happen
		}
	}
	fmt.Println("none was refused")
	// Output:
	// none was refused
}
