// Package api lets other services, in any language, use a router over HTTP: publish and send events, end connections
// and rights, ban, and list connections and members.
//
//	mux.Handle("/v1/", api.Handler(r, api.Options{
//		Authorize: api.Secrets(map[string]api.Grant{
//			os.Getenv("BILLING_KEY"): {Name: "billing", Calls: []string{"publish", "send"}, Topics: []string{"orders:*"}},
//		}),
//	}))
//
// A call is a request with JSON and a bearer token:
//
//	curl https://chat.example/v1/publish -H "Authorization: Bearer $BILLING_KEY" \
//	  --json '{"topic": "orders:7", "event": "order.paid", "data": {"id": 7}}'
//
// Each call is for all processes that share the Backend of the router, whichever of them gets it, but stats. The data
// of an event is checked against the type with which the program has declared it, before anything is sent.
//
// GET /v1/openapi.json describes the calls and the events, as OpenAPI 3.1, for those that may make a call.
// docs/other-services.md is for authors of the other service.
package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// Options configure [Handler].
type Options struct {
	// Authorize returns what the sender of a request may do, or an error, which is the answer: with UNAUTHENTICATED
	// 401. It is called before the body is read, and concurrently. [Secrets] makes one.
	//
	// Default: none; it must be set.
	Authorize func(*http.Request) (Grant, error)

	// Undeclared admits events that the program has not declared with [router.Declare], with any data.
	//
	// Default: they are refused.
	Undeclared bool

	// Bans are those of the router, for the calls ban and unban.
	//
	// Default: none: the calls fail.
	Bans *ratelimit.Bans

	// Limits are limits of the router by the name of their limiter, for the calls peek and reset.
	//
	// Default: none: the calls fail.
	Limits []Limit

	// Idempotency keeps the answers of requests that have an Idempotency-Key: a request that is sent again gets the
	// answer of the first. Take that of the backend.
	//
	// Default: none: a request with such a key is refused.
	Idempotency idempotency.Store

	// Keep is how long answers are kept.
	//
	// Default: 24 h.
	Keep time.Duration

	// Timeout bounds a request.
	//
	// Default: 10 s.
	Timeout time.Duration

	// Logger gets a line for each call: the sender, what it asked for and the outcome.
	//
	// Default: slog.Default().
	Logger *slog.Logger
}

// Limit is a limit of the router.
type Limit struct {
	// Limiter is the limiter. Its name is that of the limit.
	Limiter *limit.Limiter
	// Key is the one of ratelimit.New. Default: ratelimit.PerUserOrIPPerType.
	Key ratelimit.KeyFunc
}

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 1 << 20
	// maxAnswer bounds the results of a batch, in bytes: when they are more, no further call of it is made.
	maxAnswer = 16 << 20
	// maxRequests bounds how many requests are handled at once.
	maxRequests = 256
	// maxName bounds names of grants and idempotency keys, in bytes.
	maxName = 128
)

// Handler returns the handler of the calls. Register it under a path that ends with /v1/, for a router of which all
// events are declared. It panics if an option makes no sense, and if the messages of the router cannot be described.
func Handler(r *router.Router, o Options) http.Handler {
	o, err := o.withDefaults()
	if err != nil {
		panic(err)
	}
	h := &handler{o: o, r: r, calls: make(map[string]*call), busy: make(chan struct{}, maxRequests)}
	if h.limits, err = byName(o.Limits); err != nil {
		panic(err)
	}
	h.types = router.New(router.Options{Logger: o.Logger})
	for _, c := range allCalls {
		c.declare(h.types)
		h.calls[c.name] = c
	}
	router.Declare[batchParams](h.types, "batch")
	router.Declare[batchResult](h.types, resultOf("batch"))
	if h.openapi, err = h.describe(); err != nil {
		panic(err)
	}
	return h
}

func (o Options) withDefaults() (Options, error) {
	o.Keep = cmp.Or(o.Keep, 24*time.Hour)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case o.Authorize == nil:
		return o, fmt.Errorf("api: Options.Authorize is nil; set api.Secrets, or a function that refuses strangers")
	case o.Keep < 0 || o.Timeout < 0:
		return o, fmt.Errorf("api: Options.Keep is %v and Timeout %v; both must be positive; 0 is for 24h and 10s",
			o.Keep, o.Timeout)
	}
	return o, nil
}

// byName are limits with their defaults, by the name of the limiter.
func byName(limits []Limit) (map[string]Limit, error) {
	named := make(map[string]Limit, len(limits))
	for i, l := range limits {
		if l.Limiter == nil {
			return nil, fmt.Errorf("api: Options.Limits[%d] has no Limiter; set it", i)
		}
		name := l.Limiter.Name()
		if _, twice := named[name]; twice {
			return nil, fmt.Errorf("api: Options.Limits has two limiters named %q; give each a name of its own", name)
		}
		if l.Key == nil {
			l.Key = ratelimit.PerUserOrIPPerType
		}
		named[name] = l
	}
	return named, nil
}
