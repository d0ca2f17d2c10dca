// Package inspect is a page that shows what a router does: its connections, topics, types and
// limits, why a user was limited, and the messages of one user as they come and go.
//
//	mux.Handle("/inspect/", http.StripPrefix("/inspect", inspect.Handler(r, inspect.Options{
//		Authorize: func(req *http.Request) (inspect.Viewer, error) { … },
//		Rules:     limits,
//	})))
//
// With a broker (Backend.Broker), the page shows all processes that share it and have the
// handler, and says how many did not answer.
//
// The page has names, addresses and topics of all users. The files of the page have
// no data and are served to all; everything else is served only where Authorize returns no error.
package inspect

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/wskit/wskit/internal/inspection"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/middleware/sharedrules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// Viewer is a person, or a program, that uses the page.
type Viewer struct {
	// Name is in the log of actions and traces. A trace can be read by the viewer that began it alone, so give each its
	// own.
	Name string
	// Actions allows to close connections, to ban and to end bans, to take rights to topics away and to replace rules.
	// They are logged.
	Actions bool
	// Payloads allows to see what messages say. Without it, a trace has their types and sizes. Tokens of $ws:renew and
	// tickets are never shown.
	Payloads bool
}

// Limit is a limit of the application that the page shows.
type Limit struct {
	// Limiter is the limiter, or Concurrency the limit of how many messages are handled at a time.
	Limiter     *limit.Limiter
	Concurrency *limit.ConcurrencyLimit
	// Key is the one of ratelimit.New. Default: ratelimit.PerUserOrIPPerType.
	Key ratelimit.KeyFunc
	// Types are the message types that it limits. Default: all.
	Types []string
}

// Options say which requests may see the page, and what is on it.
type Options struct {
	// Authorize returns the viewer of a request, or an error. It is called for each request, except those for the
	// files of the page. The error is answered with 401, or with 403 if its code is PERMISSION_DENIED. The page
	// sends the cookies of its origin and, if its address ends with #token=…, that token in
	// Authorization: Bearer. It is called concurrently.
	//
	// Required.
	//
	// Default: none; it must be set.
	Authorize func(*http.Request) (Viewer, error)

	// LoginURL is the address of a page on which a person logs in: a path, or an http or https URL. The page of the
	// inspector links to it when Authorize has refused with 401. Let it set a cookie that Authorize reads, and come
	// back.
	//
	// Default: none: the page asks for a token, which it sends as Authorization: Bearer until its tab is closed.
	LoginURL string

	// Rules are the rules that the router enforces. Default: none.
	Rules *rules.Limiter

	// Shared are the Rules, if processes share them: what replaces them on the page replaces them in all processes, and
	// in those that start later. Default: none: those that run now get the rules.
	Shared *sharedrules.Shared

	// Limits are other limits of the router. Default: none.
	Limits []Limit

	// Runs are those of the router. Default: none.
	Runs []*run.Runs

	// Bans are the bans of the router. Default: none.
	Bans *ratelimit.Bans

	// Process is the name of this process on the page. Default: the host name and the process id.
	Process string

	// Timeout is how long other processes have to answer. Default: 2 s.
	Timeout time.Duration

	// Logger gets the actions and the traces, each with the name of the viewer. Default: slog.Default().
	Logger *slog.Logger
}

// Handler returns the page. It adds hooks to the router, so it has to be called before the router
// serves a connection, once for each router. It panics if an option is not valid.
//
// Register it under a path that ends with a slash, and remove what is before that slash with
// http.StripPrefix, as in the example of the package.
func Handler(r *router.Router, o Options) http.Handler {
	o, err := o.withDefaults()
	if err != nil {
		panic(err)
	}
	i := &inspector{
		o: o, r: r, inside: inspection.Of(r), started: time.Now(),
		busy: make(chan struct{}, maxRequests), answering: make(chan struct{}, maxRequests),
	}
	i.traces.all = make(map[string]*trace)
	r.AddHooks(router.Hooks{OnLimitExceeded: i.recent.add})
	i.peers = newPeers(i)
	return i.handler()
}

func (o Options) withDefaults() (Options, error) {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Process == "" {
		host, _ := os.Hostname()
		o.Process = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	for n, l := range o.Limits {
		if (l.Limiter == nil) == (l.Concurrency == nil) {
			return o, fmt.Errorf("inspect: Options.Limits[%d] needs a Limiter or a Concurrency, and not both", n)
		}
		if l.Key == nil {
			o.Limits[n].Key = ratelimit.PerUserOrIPPerType
		}
	}
	switch {
	case o.Authorize == nil:
		return o, fmt.Errorf("inspect: Options.Authorize is nil; set a function that returns an error for requests that may not see all users")
	case !isLogin(o.LoginURL):
		return o, fmt.Errorf("inspect: Options.LoginURL is %q; it must be a path or an http or https URL", o.LoginURL)
	case o.Timeout < 0:
		return o, fmt.Errorf("inspect: Options.Timeout is %v; it must be positive (0 for 2s)", o.Timeout)
	case len(o.Process) > maxName:
		return o, fmt.Errorf("inspect: Options.Process has %d bytes; at most %d are allowed", len(o.Process), maxName)
	}
	return o, nil
}

// isLogin reports whether a URL is one for a link: not of a scheme that runs code.
func isLogin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https")
}

// inspector shows a router.
type inspector struct {
	o       Options
	r       *router.Router
	inside  inspection.Router
	started time.Time
	recent  recent
	traces  traces
	peers   *peers

	busy      chan struct{} // holds a token for each request that is answered
	answering chan struct{} // and for each query of another process
}

const (
	// maxRequests bounds how many requests are answered at once, and how many queries of other processes.
	maxRequests = 8
	// maxName bounds names, ids and searches, in bytes.
	maxName = 256
	// maxListed bounds lists of connections and topics.
	maxListed = 100
	// maxBody bounds the body of a request, in bytes.
	maxBody = 256 << 10
)
