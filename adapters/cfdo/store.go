package cfdo

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/limit"
)

// Options configure a [Store] in Durable Objects. The zero value is ready to use.
type Options struct {
	// Tenant says which tenant a key belongs to. Each tenant has objects of its own, so that neither its load nor its
	// state touches another's. It must return the same for a key at any time and in all processes: [KeyPart] reads it
	// from the key.
	//
	// Default: none.
	Tenant func(key string) string

	// Timeout bounds a request, whatever the deadlines of its callers. Negative is an error.
	//
	// Default: 2 s.
	Timeout time.Duration

	// Requests is how many requests are on their way at a time at most. Negative is an error. Calls that come while all
	// are share the next one.
	//
	// Default: 2.
	Requests int

	// Remember is how long a denial may be answered without a new request, which bounds for how long a refund or a
	// reset through another process goes unnoticed. Negative: nothing is remembered.
	//
	// Default: 10 s.
	Remember time.Duration

	// ProcessTimeout is how long the leases of a killed process count, see limit.ConcurrencyOptions. From 1 s to 10
	// min.
	//
	// Default: 15 s.
	ProcessTimeout time.Duration

	// InsecureHTTP allows a plain http URL that is not of this machine. The
	// secret is then sent unencrypted.
	//
	// Default: false.
	InsecureHTTP bool

	// Transport makes the requests.
	//
	// Default: one that is tuned for this: it keeps connections for less long than the server does and never sends a
	// request twice.
	Transport http.RoundTripper
}

const (
	// maxBatch is how many calls share a request at most.
	maxBatch = 512
	// tick is in what steps the clock of Workers counts.
	tick = time.Millisecond
)

// Store is a [limit.Store] whose state is in Durable Objects. All its methods
// may be used by any number of goroutines.
type Store interface {
	limit.Store
	limit.ExtendedStore
	limit.ManyTaker
	limit.LeaseStore

	// ProcessTimeout is Options.ProcessTimeout, for [limit.NewConcurrencyLimit].
	ProcessTimeout() time.Duration
	// Stats returns the figures of the store.
	Stats() Stats
	// Close closes the connections that are idle. Calls under way go on. The error is always nil.
	Close() error
}

type store struct {
	url       string
	bearer    string
	tenant    func(string) string
	timeout   time.Duration
	client    *http.Client
	trips     *batch.Batcher[call]
	denials   *denialcache.Cache // nil when nothing is remembered
	tick      time.Duration
	now       func() int64  // in microseconds
	gone      time.Duration // ProcessTimeout
	requests  atomic.Int64
	asks      atomic.Int64
	retries   atomic.Int64
	transport *http.Transport // ours, to be closed
}

// Open returns a store that calls the Worker at a URL, such as
// "https://wskit-limits.example.workers.dev", with the secret that the Worker was
// given. It connects when it is first used. The error says which argument is wrong
// and what would be right.
func Open(url, secret string, options ...Options) (Store, error) {
	o := given.Must("cfdo", "Open", options)
	return open(url, secret, o, tick, nil)
}

// open is Open with a clock for tests, and what it counts in.
func open(url, secret string, o Options, tick time.Duration, now func() time.Time) (Store, error) {
	endpoint, err := checkURL(url, o.InsecureHTTP)
	if err != nil {
		return nil, err
	}
	if err := checkSecret(secret); err != nil {
		return nil, err
	}
	if o.Timeout < 0 || o.Requests < 0 {
		return nil, fmt.Errorf("cfdo: Options{Timeout: %v, Requests: %d}: leave what is negative 0 for the default", o.Timeout, o.Requests)
	}
	if o.ProcessTimeout, err = leasecheck.Timeout("cfdo", "Options", o.ProcessTimeout); err != nil {
		return nil, err
	}
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.Requests = cmp.Or(o.Requests, 2)
	s := &store{url: endpoint, bearer: "Bearer " + secret, tenant: o.Tenant, timeout: o.Timeout, tick: tick, gone: o.ProcessTimeout}
	if o.Transport == nil {
		s.transport = newTransport(o.Requests)
		o.Transport = s.transport
	}
	s.client = &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the secret is for one address only
	}}
	if o.Remember >= 0 {
		s.denials = denialcache.New(denialcache.Options{MaxAge: o.Remember, Granularity: tick, Now: engine.Clock(now)})
	}
	if now == nil {
		now = time.Now
	}
	s.now = engine.Clock(now)
	s.trips = batch.New(s.send, batch.Options{Flushes: o.Requests, Size: maxBatch, OnCaller: true})
	return s, nil
}

func (s *store) ProcessTimeout() time.Duration { return s.gone }

func (s *store) Close() error {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return nil
}

// Take implements [limit.Store].
func (s *store) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	q, denied := s.remembered(&d, key, plan, cost)
	if denied {
		return d, nil
	}
	return s.take(ctx, q, string(key), plan, cost)
}

// remembered answers a cost that is remembered to be denied.
func (s *store) remembered(d *limit.Decision, key []byte, plan *limit.Plan, cost int64) (q denialcache.Miss, denied bool) {
	if s.denials == nil {
		return q, false
	}
	if q, denied = s.denials.Get(d, key, plan, cost); denied {
		s.laterByTick(d)
	}
	return q, denied
}

// take calls the Worker.
func (s *store) take(ctx context.Context, q denialcache.Miss, key string, plan *limit.Plan, cost int64) (d limit.Decision, err error) {
	it := s.trips.Item()
	it.Value.begin(opTake)
	a := it.Value.add(s, key, plan, cost)
	a.question = q
	if err := s.trips.Do(ctx, it); err != nil {
		return d, err
	}
	s.settle(a)
	d = a.answer
	s.trips.Free(it)
	return d, nil
}

// settle learns from an answer of the Worker, whose clock counts in ticks:
// nothing changes for it between two of them, so that is when a wait ends.
func (s *store) settle(a *ask) {
	switch {
	case a.whole:
		a.question.Put(&a.answer, a.words)
	case s.denials != nil: // what is remembered is not all that was used
		s.denials.Invalidate([]byte(a.key), a.plan)
	}
	a.answer.RetryAfter = roundUp(a.answer.RetryAfter, s.tick)
}

// laterByTick does the same for an answer from memory, which is reckoned to the
// microsecond from an instant that the Worker had rounded down.
func (s *store) laterByTick(d *limit.Decision) {
	if d.RetryAfter > 0 {
		d.RetryAfter = roundUp(d.RetryAfter+s.tick-time.Microsecond, s.tick)
	}
}

func roundUp(d, step time.Duration) time.Duration {
	return (d + step - 1) / step * step
}

// Stats are figures of a [Store] since it was opened.
type Stats struct {
	// Requests is how many requests were sent, and Asks how many costs and
	// operations they held.
	Requests, Asks int64
	// Retries is how many of them were sent again because there was no connection.
	Retries int64
	// Remembered is how many costs were denied from memory.
	Remembered int64
}

func (s *store) Stats() Stats {
	st := Stats{Requests: s.requests.Load(), Asks: s.asks.Load(), Retries: s.retries.Load()}
	if s.denials != nil {
		st.Remembered = s.denials.Stats().Hits
	}
	return st
}
