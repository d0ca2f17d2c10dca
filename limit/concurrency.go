package limit

import (
	"context"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/leasecheck"
)

// ConcurrencyOptions configure a [ConcurrencyLimit]. Max must be set, and over a shared store
// Limiter.Name.
type ConcurrencyOptions struct {
	// Max is how many leases there may be under a key, at least 1.
	//
	// Default: none; it must be set.
	Max int64

	// LeaseTime is the time after which the leases of a killed process no longer count. A
	// running process renews its leases three times within this time. A store in this process
	// ignores it.
	//
	// Default: the ProcessTimeout of the store's options, 15 s. At least 1 ms.
	LeaseTime time.Duration

	// Instance is the name of this server among those that share the store, such as the name
	// of the host: the same after a restart, and different from the names of all other running
	// servers. The leases of a killed server are then released within seconds of the next
	// start of a server with this name, and not after LeaseTime. A running process keeps its
	// leases, even if a second one has its name by mistake, unless it cannot reach the store
	// for 2 s while the second one starts; then its leases count again when it renews them.
	// The cost is one more entry in the store for each lease, and for each acquisition a call
	// that runs in parallel with it.
	//
	// Default: none. A store in this process ignores it.
	Instance string

	// Limiter has the namespace of the keys, the timeout and the failure policy, as for a
	// [Limiter]. Under [FailLocal] each process counts its own leases.
	//
	// Default: see [Options].
	Limiter Options
}

// A ConcurrencyLimit limits how many things exist at a time, such as the open connections of
// a user or the reports that are computed for a tenant. Each takes a [Lease] and releases it
// at its end. All processes that share the store count together.
//
// Over a store that other processes share, one goroutine renews the leases of this process
// while it has any. There is nothing to close; call [ConcurrencyLimit.Flush] before the
// process ends. All methods may be used by any number of goroutines.
type ConcurrencyLimit struct {
	leases   *leaseRenewer
	instance *instance // nil without ConcurrencyOptions.Instance
	max      int64
}

// NewConcurrencyLimit makes a limit over a store. It panics, saying what to change, where
// [New] would, and when the store is no [LeaseStore] or an option is invalid.
func NewConcurrencyLimit(store Store, o ConcurrencyOptions) *ConcurrencyLimit {
	return &ConcurrencyLimit{leases: newLeaseRenewer(store, o), instance: newInstance(store, o), max: o.Max}
}

// With returns this limit with another maximum: the same name and so the same keys and leases,
// the same figures and failure policy. It is for a maximum that depends on the subject, such as
// its tier: each acquisition is decided by its own maximum. It panics if max is below 1.
func (c *ConcurrencyLimit) With(max int64) *ConcurrencyLimit {
	if err := leasecheck.Check(max, time.Second); err != nil {
		panic(err.Error())
	}
	return &ConcurrencyLimit{leases: c.leases, instance: c.instance, max: max}
}

// Key begins a key of this limit in buf, which may be nil, as [Limiter.Key] does.
func (c *ConcurrencyLimit) Key(buf []byte) Key { return c.leases.limiter.Key(buf) }

// Acquire takes a lease if fewer than the limit are held under the key, which is one of
// [KeyOf]. If Decision.Allowed is true, the lease must be released. A denial has no
// RetryAfter: when a lease is released cannot be known. When the store fails, the failure
// policy decides. What this process has released before counts as free, even if the store has not
// released it yet: the call waits for that if it has to.
//
// The error is nil whenever a decision was made. Once the store has been called, the end of ctx
// does not end the call, because only the answer says whether there is a lease to release. The
// call takes Options.Timeout at most.
func (c *ConcurrencyLimit) Acquire(ctx context.Context, key Key) (lease Lease, d Decision, err error) {
	if lease, err = c.leases.lease(key, c.leases.newID()); err != nil {
		return lease, d, err
	}
	wait := c.instance.note(ctx, lease)
	d, err = c.leases.acquire(ctx, lease, c.max)
	wait()
	switch forget := c.instance.forget(lease); {
	case err != nil:
		c.leases.release(lease, forget)
		return lease, Decision{}, err
	case d.Allowed:
		c.leases.start()
	case forget != nil:
		forget()
	}
	return lease, d, nil
}

// Release ends a lease without waiting for the store. The call to the store is repeated until
// it succeeds or the lease has ended by itself. To release one that is not held does nothing.
func (c *ConcurrencyLimit) Release(lease Lease) {
	c.leases.release(lease, c.instance.forget(lease))
}

// Held counts the leases under a key, those of other processes included.
func (c *ConcurrencyLimit) Held(ctx context.Context, key Key) (int64, error) {
	lease, err := c.leases.lease(key, "")
	if err != nil {
		return 0, err
	}
	n, _, err := c.leases.store.Held(ctx, lease.Key, 0)
	return n, err
}

// Peek returns what [ConcurrencyLimit.Acquire] would decide, and takes nothing. Remaining is how
// many leases are free. A lease that this process has released still counts until the store has
// released it.
func (c *ConcurrencyLimit) Peek(ctx context.Context, key Key) (Decision, error) {
	held, err := c.Held(ctx, key)
	if err != nil {
		return Decision{}, err
	}
	return Decision{Allowed: held < c.max, Limit: c.max, Remaining: max(0, c.max-held), Policy: c.Name()}, nil
}

// Name is the namespace of the keys.
func (c *ConcurrencyLimit) Name() string { return c.leases.limiter.name }

// Open is the number of leases that this process renews or has yet to release. It is 0 over
// a store in this process.
func (c *ConcurrencyLimit) Open() int { return c.leases.count() }

// Stats returns the figures of the limit. Allowed and Denied count acquisitions.
func (c *ConcurrencyLimit) Stats() Stats { return c.leases.limiter.Stats() }

// Flush waits until the store has released all leases that were released before. Releases of
// many leases share calls. It returns an error if ctx ends before, and after the lease time at
// the latest, because then all of them have ended. Call it before the process ends and before
// the store is closed.
func (c *ConcurrencyLimit) Flush(ctx context.Context) error {
	return errors.Join(c.leases.flushed(ctx), c.instance.flush(ctx))
}
