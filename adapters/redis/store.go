package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/limit"
)

// StoreOptions configure a [Store] on Redis. The zero value is ready to use.
type StoreOptions struct {
	// Prefix begins the keys of limiters on this store whose limit.Options have none. Letters, digits, '.', '_', '-'
	// and '/', 64 at most.
	//
	// Default: "wskit".
	Prefix string

	// RememberedKeys bounds how many exhausted keys are refused by this process without asking Redis. Negative means
	// none: every decision is a call to Redis. What is remembered, and why that is exact, is explained by package
	// internal/denialcache.
	//
	// Default: 65,536, which take about 7 MB.
	RememberedKeys int

	// RememberFor bounds how long a key is refused without asking. Negative panics. It is how long a refund or a reset
	// by another process may go unnoticed here.
	//
	// Default: 10 s.
	RememberFor time.Duration

	// Trips is how many round trips to one server may be on their way at a time. Negative panics. Calls that come while
	// all are busy share the next one.
	//
	// Default: 2.
	Trips int

	// ProcessTimeout is how long the leases of a killed process count, see limit.ConcurrencyOptions. From 1 s to 10
	// min.
	//
	// Default: 15 s.
	ProcessTimeout time.Duration

	// Now is a clock for tests, from 1970 to 2112: it takes the place of the server's in all decisions. Outside of that
	// it stops at the nearer end. State is kept by the server's clock, for as long as without it.
	//
	// Default: the clock of the server that has the key.
	Now func() time.Time

	// Logger gets a line when a server evicts keys because memory is full, or does not say
	// whether it does: once each. nil means slog.Default().
	Logger *slog.Logger
}

// Store is a [limit.Store] on Redis, for limits that several processes share. All
// its methods may be used by any number of goroutines.
//
// A decision is one atomic script on the server that has the key, by that server's
// clock. Calls that come together share a round trip; a call that comes alone goes
// out at once. A cost that is known to be denied is denied without asking. A decision
// whose outcome is unknown is never sent again; operations on leases
// may be repeated, so that the client does as its MaxRetries says.
type Store interface {
	limit.Store
	limit.ExtendedStore
	limit.ManyTaker
	limit.LeaseStore

	// TimesTrips says that the timeout of a limiter counts from the instant at which a question is sent.
	TimesTrips()
	// Prefix is StoreOptions.Prefix, for [limit.New].
	Prefix() string
	// ProcessTimeout is StoreOptions.ProcessTimeout, for [limit.NewConcurrencyLimit].
	ProcessTimeout() time.Duration
	// Client is for a [Broker], a [Presence] or an application that is to use the same
	// Redis. If [OpenStore] made the store, it has connections of its own, so that
	// decisions never wait for what others do with theirs, and the store closes it. Otherwise it is the client
	// that the store was made on.
	Client() goredis.UniversalClient
	// Stats returns the figures of the store.
	Stats() Stats
	// Close closes the clients, if [OpenStore] made them. See also [NewPrefetch].
	Close() error
}

type store struct {
	*core
	prefetch *prefetch // of NewPrefetch
}

// core is what stores on the same connections share.
type core struct {
	client goredis.UniversalClient
	where  topology
	prefix string                         // of the keys of limiters; empty: theirs
	gone   time.Duration                  // ProcessTimeout
	owned  bool                           // the client is the store's
	others func() goredis.UniversalClient // of Open: the client for others, made when it is first asked for
	shared atomic.Bool                    // it has been
	now    func() int64
	memory *denialcache.Cache // nil when nothing is remembered
	takes  *lanes[call]
	leases *lanes[[]leaseCall]
	// answering says that the last round trip was answered. While it was not,
	// nothing is answered from memory, so that a limiter that tries whether Redis
	// is back learns the truth.
	answering atomic.Bool
	figures   figures
	errors    kinds
	evictions evictions
}

type figures struct{ trips, sent, reloads, failures, roundTrip atomic.Int64 }

// NewStore makes a store on a client of the caller's, a *Client (of one server or
// of Sentinels), a *ClusterClient or a *Ring of go-redis, which the store does not
// close. It never lets the client repeat a decision, whatever its MaxRetries. Give the
// client ContextTimeoutEnabled and short timeouts, as [OpenStore] does: calls that are not
// a limiter's end with their contexts only then. The store adds a hook to the client: new
// connections do not count a timeout for which only this process is late (Stats.LateReads).
//
// NewStore panics when an option or the client is not one it can use.
func NewStore(client goredis.UniversalClient, options ...StoreOptions) Store {
	return storeOn(client, given.Must("redis", "NewStore", options))
}

func storeOn(client goredis.UniversalClient, o StoreOptions) *store {
	checkStore(o)
	return newStore(topologyOf("NewStore", client), o)
}

func checkStore(o StoreOptions) {
	if o.Trips < 0 || o.RememberFor < 0 {
		panic(fmt.Sprintf("redis: StoreOptions{Trips: %d, RememberFor: %v}: leave what is negative 0 for the default", o.Trips, o.RememberFor))
	}
	if _, err := leasecheck.Timeout("redis", "StoreOptions", o.ProcessTimeout); err != nil {
		panic(err.Error())
	}
	if o.Prefix != "" {
		if err := checkPrefix("StoreOptions", o.Prefix); err != nil {
			panic(err.Error())
		}
	}
}

func newStore(where topology, o StoreOptions) *store {
	s := &store{core: &core{client: where.all(), where: where, prefix: o.Prefix, now: engine.Clock(o.Now)}}
	s.gone = cmp.Or(o.ProcessTimeout, leasecheck.ProcessTimeout)
	each := batch.Options{Flushes: o.Trips, OnCaller: where.keepsDeadlines(), ReuseContext: true, Slack: slack}
	s.takes, s.leases = newLanes(each, s.trip), newLanes(each, s.leaseTrip)
	if o.RememberedKeys >= 0 {
		s.memory = denialcache.New(denialcache.Options{Keys: o.RememberedKeys, MaxAge: o.RememberFor, Now: s.now})
	}
	s.answering.Store(true)
	s.evictions.log, s.evictions.start, s.evictions.every = o.Logger, time.Now(), lookEvery
	s.evictions.means = "limits are forgotten, and admit more"
	if o.Logger == nil {
		s.evictions.log = slog.Default()
	}
	return s
}

func (s *store) TimesTrips() {}

func (s *store) Prefix() string { return s.prefix }

func (s *store) ProcessTimeout() time.Duration { return s.gone }

func (s *store) Close() error {
	if s.prefetch != nil {
		s.prefetch.close()
		return nil
	}
	if !s.owned {
		return nil
	}
	err := s.client.Close()
	if s.shared.Load() {
		err = errors.Join(err, s.others().Close())
	}
	return err
}

// Take implements [limit.Store].
func (s *store) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	if s.prefetch != nil {
		return s.prefetch.take(ctx, key, plan, cost)
	}
	var q denialcache.Miss
	if s.memory != nil && s.answering.Load() {
		var denied bool
		if q, denied = s.memory.Get(&d, key, plan, cost); denied {
			return d, nil
		}
	}
	a := asks.Ask{Operation: asks.Take, Key: asks.KeyOf(key, plan), Plan: plan, Cost: cost, Question: q}
	err = s.one(ctx, &a)
	return a.Answer, err
}

// Stats are figures of a [Store] since it was made.
type Stats struct {
	// Remembered is how many costs were denied without asking Redis.
	Remembered int64
	// Sent is how many calls were sent, and Trips in how many round trips.
	Sent, Trips int64
	// Reloads is how often a server did not have the script.
	Reloads int64
	// Failures is how many calls had no answer, and Errors why: by the word that an error of Redis
	// begins with, such as "OOM" (its memory is full), "READONLY" or "LOADING", or else "timeout",
	// "canceled", "connection" or "other".
	Failures int64
	Errors   map[string]int64
	// Evicted is how many keys the servers have deleted because their memory was full, since the
	// store was first used: limits among them begin anew. The figure is read about
	// every 10 s. Keys of other applications on the same server count as well.
	Evicted int64
	// RoundTrip is how long the last round trips took, on average: what
	// limit.Options.Timeout has to be longer than. One that had to make a connection
	// takes several times as long.
	RoundTrip time.Duration
	// LateReads is how many answers had arrived within the timeout and were read after it,
	// because this process was waiting for a CPU. They count as answers. When there are
	// many, the process needs more CPU.
	LateReads int64
}

func (s *store) Stats() Stats {
	st := Stats{
		Sent: s.figures.sent.Load(), Trips: s.figures.trips.Load(),
		Reloads: s.figures.reloads.Load(), Failures: s.figures.failures.Load(),
		RoundTrip: time.Duration(s.figures.roundTrip.Load()),
		Errors:    s.errors.all(), Evicted: s.evictions.count.Load(),
		LateReads: s.where.lateReads(),
	}
	if s.memory != nil {
		st.Remembered = s.memory.Stats().Hits
	}
	return st
}

// one makes one call.
func (s *store) one(ctx context.Context, a *asks.Ask) error {
	server, err := s.where.server(ctx, a.Key)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	lane := s.takes.to(server)
	item := lane.Item()
	item.Value.together = false
	item.Value.asks = append(item.Value.asks[:0], *a)
	if err := lane.Do(ctx, item); err != nil {
		return err
	}
	*a = item.Value.asks[0]
	lane.Free(item)
	return nil
}

// several makes several calls to one server, in one round trip.
func (s *store) several(ctx context.Context, server any, all []asks.Ask, together bool) error {
	lane := s.takes.to(server)
	item := lane.Item()
	item.Value.together = together
	item.Value.asks = append(item.Value.asks[:0], all...)
	if err := lane.Do(ctx, item); err != nil {
		return err
	}
	copy(all, item.Value.asks)
	lane.Free(item)
	return nil
}

// lanes are batchers by server: calls to one server share their round trips.
type lanes[T any] struct {
	options  batch.Options
	trip     func(ctx context.Context, server any, items []*batch.Item[T])
	byServer sync.Map
}

// newLanes makes lanes whose round trips trip makes.
func newLanes[T any](o batch.Options, trip func(ctx context.Context, server any, items []*batch.Item[T])) *lanes[T] {
	return &lanes[T]{options: o, trip: trip}
}

// to is the batcher of a server.
func (l *lanes[T]) to(server any) *batch.Batcher[T] {
	lane, ok := l.byServer.Load(server)
	if !ok {
		lane, _ = l.byServer.LoadOrStore(server, batch.New(func(ctx context.Context, items []*batch.Item[T]) {
			l.trip(ctx, server, items)
		}, l.options))
	}
	return lane.(*batch.Batcher[T])
}

// slack is how many timeouts of a round trip a call may take altogether: one in which
// the script is sent by its name, one in which it is sent whole, and ten to make a
// connection.
const slack = 12

var errUnsupported = fmt.Errorf("redis: the keys are on different servers or in different slots of the cluster: %w", errors.ErrUnsupported)
