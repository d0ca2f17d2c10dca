package limit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/outage"
)

// remote is what a limiter needs over a store that can fail: a timeout, a
// circuit breaker, and something to answer instead.
type remote struct {
	breaker   *gobreaker.CircuitBreaker[Decision]
	timeout   time.Duration
	trips     bool // the timeout is that of a round trip: see batch.TripTimer
	onFailure Failure
	fallback  *fallback
	outage    outage.Reporter
	cause     atomic.Pointer[error] // the last failure of the store
	degraded  atomic.Bool
	switches  *atomic.Int64
}

const (
	// The breaker opens after this many failures in a row, or when half of at
	// least 20 calls within ten seconds failed.
	breakAfter    = 5
	breakMinCalls = 20
	breakInterval = 10 * time.Second
	// breakFor is how long the store is left alone before one call tries it
	// again: a store that is down costs one frame in a second its timeout.
	breakFor = time.Second
)

func newRemote(s *shared, o Options) *remote {
	_, trips := s.store.(batch.TripTimer)
	r := &remote{
		trips:   trips,
		timeout: o.Timeout, onFailure: o.OnFailure, switches: &s.counts.switches,
		outage: outage.Reporter{
			Component: "store", Name: o.Name, Log: o.Logger, Hook: o.OnOutage,
			Failing: "limit: the store fails; the failure policy decides until it answers again",
			Working: "limit: the store answers again",
			Attrs:   []any{"limiter", o.Name, "policy", o.OnFailure.text()},
		},
	}
	if o.OnFailure == FailLocal {
		r.fallback = &fallback{max: o.FallbackKeys, now: o.Now}
	}
	r.breaker = gobreaker.NewCircuitBreaker[Decision](gobreaker.Settings{
		Name:         o.Name,
		Interval:     breakInterval,
		BucketPeriod: time.Second,
		Timeout:      breakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= breakAfter ||
				c.Requests >= breakMinCalls && c.TotalFailures*2 >= c.Requests
		},
		IsExcluded: func(err error) bool {
			_, ok := errors.AsType[notTheStore](err)
			return ok || errors.Is(err, batch.ErrFull)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				r.leave()
			case gobreaker.StateClosed:
				r.comeBack()
			}
		},
	})
	return r
}

var errPanicked = errors.New("limit: the store panicked")

// notTheStore marks an error that says nothing about the store's health.
type notTheStore struct{ error }

func (e notTheStore) Unwrap() error { return e.error }

// guard calls the store within the timeout and the circuit breaker. When the
// store has failed, or is left alone because it did, failed says how and the
// failure policy has to answer; err is an error that is not the store's.
func (l *Limiter) guard(ctx context.Context, call func(context.Context) (Decision, error)) (d Decision, failed, err error) {
	d, err = l.remote.breaker.Execute(func() (Decision, error) {
		within := ctx
		switch {
		case l.remote.timeout <= 0:
		case l.remote.trips:
			within = batch.WithTimeout(ctx, l.remote.timeout)
		default:
			var cancel context.CancelFunc
			within, cancel = context.WithTimeout(ctx, l.remote.timeout)
			defer cancel()
		}
		start := time.Now()
		d, err := call(within)
		l.counts.took.Add(time.Since(start))
		switch {
		case err == nil:
			return d, nil
		case ctx.Err() != nil, errors.CodeOf(err) == errors.InvalidArgument, errors.Is(err, errors.ErrUnsupported):
			return d, notTheStore{err}
		}
		l.counts.failures.Add(1)
		if timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err); ok && timeout.Timeout() {
			l.counts.timeouts.Add(1)
		}
		cause := err
		l.remote.cause.Store(&cause)
		return d, err
	})
	if err == nil {
		return d, nil, nil
	}
	if e, ok := errors.AsType[notTheStore](err); ok {
		return d, nil, e.error
	}
	return d, err, nil
}

// takeRemote decides by the store, and by the failure policy when the store fails.
func (l *Limiter) takeRemote(d *Decision, ctx context.Context, key []byte, cost int64) (err error) {
	var failed error
	*d, failed, err = l.guard(ctx, func(ctx context.Context) (Decision, error) {
		return l.store.Take(ctx, key, l.plan, cost)
	})
	if failed == nil {
		return err
	}
	return l.failOver(d, key, cost, failed)
}

// failOver decides by the failure policy, in the store's stead.
func (l *Limiter) failOver(d *Decision, key []byte, cost int64, failed error) error {
	l.countFailure(failed)
	switch {
	case l.remote.onFailure == FailLocal:
		l.remote.fallback.take(d, key, l.plan, cost)
	case l.failsOpen():
		l.plan.Take(d, nil, 0, cost) // as for a subject never seen
	default:
		return unavailable(failed)
	}
	d.Charged = 0 // not by the store: it has nothing to give back
	return nil
}

// failsOpen reports whether a store that fails makes no limit.
func (l *Limiter) failsOpen() bool {
	return l.remote.onFailure == FailOpen || l.remote.onFailure == FailClosed && l.shadow
}

// countFailure counts a decision that the failure policy makes.
func (l *Limiter) countFailure(failed error) {
	if leftAlone(failed) {
		l.counts.skipped.Add(1)
	}
	l.counts.failedOver.Add(1)
}

func leftAlone(failed error) bool {
	return errors.Is(failed, gobreaker.ErrOpenState) || errors.Is(failed, gobreaker.ErrTooManyRequests)
}

func unavailable(failed error) error {
	return errors.Unavailable.Wrap(failed, "the rate limiter is unavailable").WithRetryAfter(breakFor)
}

// leave notes, once, that the store is given up for now.
func (r *remote) leave() {
	if r.degraded.CompareAndSwap(false, true) {
		r.switches.Add(1)
		cause := errPanicked
		if last := r.cause.Load(); last != nil {
			cause = *last
		}
		r.outage.Failed(cause)
	}
}

// comeBack notes, once, that the store answers again.
func (r *remote) comeBack() {
	if r.degraded.CompareAndSwap(true, false) {
		r.outage.Works()
	}
}
