package limit

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/leasecheck"
)

// leases has the leases of one [ConcurrencyLimit] in this process. It starts no goroutine:
// see leaseRenewer.
type leases struct {
	limiter   *Limiter // of which all but its policy is used
	store     LeaseStore
	leaseTime time.Duration

	mu        sync.Mutex
	mine      map[Lease]struct{} // what this process holds; nil over a store in this process
	perKey    map[string]int64   // how many of them
	renewing  int
	released  []released
	releasing map[string]int // how many of a key the store has yet to release
	sending   int            // how many of the released are being sent to the store
	sent      chan struct{}  // closed when a call that releases has ended, and replaced
	settled   time.Time      // no call that got no answer is carried out after this
}

// A released lease is remembered until the store has released it.
type released struct {
	lease Lease
	until time.Time // it has ended by itself
	done  bool      // the store has released it, and may have to again
}

// retryPause is the time between two attempts to release.
const retryPause = 20 * time.Millisecond

func newLeases(store Store, o ConcurrencyOptions) *leases {
	o.LeaseTime = leaseTime(store, o)
	holder, ok := store.(LeaseStore)
	if !ok && store != nil {
		panic(fmt.Sprintf("limit: NewConcurrencyLimit over a %T, which keeps no leases: use a store that is a limit.LeaseStore, such as memory.NewStore", store))
	}
	if err := leasecheck.Check(o.Max, o.LeaseTime); err != nil {
		panic(err.Error())
	}
	c := &leases{
		limiter: New(store, TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}, o.Limiter),
		store:   holder, leaseTime: o.LeaseTime,
	}
	if c.limiter.remote == nil {
		c.leaseTime = forever
	} else {
		c.mine, c.perKey, c.releasing = make(map[Lease]struct{}), make(map[string]int64), make(map[string]int)
		c.sent = make(chan struct{})
	}
	return c
}

// leaseTime is that of the options, or else the process timeout of the store.
func leaseTime(store Store, o ConcurrencyOptions) time.Duration {
	byDefault := leasecheck.ProcessTimeout
	if s, ok := store.(interface{ ProcessTimeout() time.Duration }); ok {
		byDefault = s.ProcessTimeout()
	}
	return cmp.Or(o.LeaseTime, byDefault)
}

// forever is the lease time where no holder can outlive the store.
const forever = 100 * 365 * 24 * time.Hour

// local reports whether the store ends with the process, so that nothing has to be renewed.
func (c *leases) local() bool { return c.mine == nil }

// localIDs counts the leases over all stores in this process.
var localIDs atomic.Int64

// newID returns the ID of a new lease, which no other one in the store has.
func (c *leases) newID() string {
	if c.local() {
		return strconv.FormatInt(localIDs.Add(1), 36)
	}
	return rand.Text()
}

// lease returns a lease under a key of this limit.
func (c *leases) lease(key Key, id string) (Lease, error) {
	if !key.isText() {
		return Lease{Key: key.String(), ID: id}, c.limiter.refuse(key, 1)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = c.limiter.bindIn(*buf, key).buf
	return Lease{Key: string(*buf), ID: id}, nil
}

// acquire takes a lease if fewer than most are held under its key. When the store
// fails, the failure policy decides. Once the store has been called, the end of ctx does not
// end the call: only the answer says whether there is a lease to release.
func (c *leases) acquire(ctx context.Context, lease Lease, most int64) (d Decision, err error) {
	if c.local() {
		d, err = c.store.Acquire(ctx, lease, most, c.leaseTime)
	} else {
		d, err = c.acquireRemote(ctx, lease, most)
	}
	if err == nil {
		d.Policy = c.limiter.name
		c.limiter.settle(&d, []byte(lease.Key))
	}
	return d, err
}

func (c *leases) acquireRemote(ctx context.Context, lease Lease, most int64) (Decision, error) {
	if ctx.Err() != nil {
		return Decision{}, context.Cause(ctx)
	}
	if c.full(lease, most) {
		return Decision{Limit: most}, nil
	}
	d, failed, err := c.ask(ctx, lease, most)
	if failed == nil && err == nil && !d.Allowed && c.awaitReleases(ctx, lease.Key) {
		d, failed, err = c.ask(ctx, lease, most)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	unclear := failed != nil && !leftAlone(failed)
	if unclear {
		c.doubt()
	}
	if failed != nil {
		d, err = c.failOver(lease, most, failed)
	}
	switch {
	case err == nil && d.Allowed:
		if _, again := c.mine[lease]; !again {
			c.mine[lease] = struct{}{}
			c.perKey[lease.Key]++
		}
	case unclear:
		c.remember(lease) // the store may hold it all the same
	}
	return d, err
}

// full reports whether this process alone holds as many leases as there may be under the key, so
// that no call to the store is needed.
func (c *leases) full(lease Lease, most int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, again := c.mine[lease]
	return c.perKey[lease.Key] >= most && !again && !c.limiter.failsOpen()
}

func (c *leases) ask(ctx context.Context, lease Lease, most int64) (d Decision, failed, err error) {
	return c.limiter.guard(context.WithoutCancel(ctx), func(ctx context.Context) (Decision, error) {
		return c.store.Acquire(ctx, lease, most, c.leaseTime)
	})
}

// awaitReleases waits until the store has released what was released under a key before, or has
// failed to, and reports whether there was anything.
func (c *leases) awaitReleases(ctx context.Context, key string) (any bool) {
	timeout := time.NewTimer(cmp.Or(max(c.limiter.remote.timeout, 0), defaultTimeout))
	defer timeout.Stop()
	for range 2 { // the call under way, and the one after it
		c.mu.Lock()
		left, sent := c.releasing[key], c.sent
		c.mu.Unlock()
		if left == 0 {
			return any
		}
		any = true
		select {
		case <-sent:
		case <-timeout.C:
			return any
		case <-ctx.Done():
			return any
		}
	}
	return any
}

// doubt notes a call that got no answer. The store may carry it out later than the calls
// after it, and so take a lease again that was released. Until that cannot happen any
// more, releases are repeated. c.mu is held.
func (c *leases) doubt() { c.settled = time.Now().Add(c.leaseTime / 3) }

// remember keeps a lease for the next call to the store. c.mu is held.
func (c *leases) remember(lease Lease) {
	c.releasing[lease.Key]++
	c.released = append(c.released, released{lease: lease, until: time.Now().Add(2 * c.leaseTime)})
}

// failOver decides in place of the store.
func (c *leases) failOver(lease Lease, most int64, failed error) (Decision, error) {
	l := c.limiter
	l.countFailure(failed)
	held := c.perKey[lease.Key]
	d := Decision{Allowed: held < most || l.failsOpen(), Limit: most, Remaining: max(0, most-held-1)}
	if l.remote.onFailure == FailClosed && !l.shadow {
		return Decision{}, unavailable(failed)
	}
	return d, nil
}

// count counts the leases that this process has to renew or to release: none over a
// [LocalStore].
func (c *leases) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mine) + len(c.released) + c.sending
}

// releaseLater ends leases without waiting for the store: the next call of flush, renew or
// flushAll tells it. It is repeated until it succeeds or the lease has ended by itself. Over
// a store in this process the leases end at once.
func (c *leases) releaseLater(leases ...Lease) {
	if c.local() {
		_ = c.store.Release(context.Background(), leases) // neither waits nor fails
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range leases {
		if _, ok := c.mine[s]; !ok {
			continue
		}
		delete(c.mine, s)
		if c.perKey[s.Key]--; c.perKey[s.Key] == 0 {
			delete(c.perKey, s.Key)
		}
		c.remember(s)
	}
}

// flushAll waits until the store has released all leases that were released before, or
// have ended by themselves. It repeats calls that fail. When ctx ends first, the error
// is that of ctx and of the store.
func (c *leases) flushAll(ctx context.Context) error {
	if c.local() {
		return nil
	}
	for {
		failed := c.flush(ctx)
		left := c.unreleased()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("limit: %d leases of %s are not released and end by themselves later: %w", left, c.limiter.name, context.Cause(ctx)), failed)
		case <-time.After(retryPause):
		}
	}
}

// unreleased counts the released leases that the store has not released yet.
func (c *leases) unreleased() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.sending
	for _, r := range c.released {
		if !r.done {
			n++
		}
	}
	return n
}

// flush has the store release what was released, unless a renewal is under way: that
// might reach the store later and would take the leases again.
func (c *leases) flush(ctx context.Context) error {
	c.mu.Lock()
	if c.renewing > 0 || len(c.released) == 0 {
		c.mu.Unlock()
		return nil
	}
	sent := c.released
	c.released = nil
	c.sending += len(sent)
	c.mu.Unlock()

	leases := make([]Lease, len(sent))
	for i, r := range sent {
		leases[i] = r.lease
	}
	began := time.Now()
	err := c.call(ctx, leases, c.store.Release)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending -= len(sent)
	for _, r := range sent {
		if over := err == nil || !began.Before(r.until); over && !r.done {
			if c.releasing[r.lease.Key]--; c.releasing[r.lease.Key] == 0 {
				delete(c.releasing, r.lease.Key)
			}
		}
		r.done = r.done || err == nil
		finally := err == nil && !began.Before(c.settled)
		if !finally && began.Before(r.until) {
			c.released = append(c.released, r)
		}
	}
	close(c.sent)
	c.sent = make(chan struct{})
	return err
}

// renew extends all leases of this process by a lease time from now.
func (c *leases) renew(ctx context.Context) error {
	c.mu.Lock()
	leases := make([]Lease, 0, len(c.mine))
	for s := range c.mine {
		leases = append(leases, s)
	}
	c.renewing++
	c.mu.Unlock()
	err := c.call(ctx, leases, func(ctx context.Context, leases []Lease) error { return c.store.Renew(ctx, leases, c.leaseTime) })
	c.mu.Lock()
	if err != nil && !leftAlone(err) {
		c.doubt()
	}
	c.renewing--
	c.mu.Unlock()
	return errors.Join(err, c.flush(ctx))
}

// leasesPerCall bounds the leases of one call.
const leasesPerCall = 1000

func (c *leases) call(ctx context.Context, leases []Lease, send func(context.Context, []Lease) error) error {
	for len(leases) > 0 {
		n := min(len(leases), leasesPerCall)
		_, failed, err := c.limiter.guard(ctx, func(ctx context.Context) (Decision, error) {
			return Decision{}, send(ctx, leases[:n])
		})
		if failed != nil || err != nil {
			return errors.Join(failed, err)
		}
		leases = leases[n:]
	}
	return nil
}
