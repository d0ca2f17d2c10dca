package limit

import (
	"context"
	"time"

	"github.com/wskit/wskit/internal/leasecheck"
)

// Leases are those of a concurrency limit without the goroutine that renews and releases.
type Leases struct {
	*leases
	most int64
}

// DefaultLeaseTime is the default of ConcurrencyOptions.LeaseTime.
const DefaultLeaseTime = leasecheck.ProcessTimeout

// NewLeases makes leases as NewConcurrencyLimit does.
func NewLeases(store Store, most int64, leaseTime time.Duration, o Options) *Leases {
	return &Leases{newLeases(store, ConcurrencyOptions{Max: most, LeaseTime: leaseTime, Limiter: o}), most}
}

// Acquire takes a lease with an id.
func (c *Leases) Acquire(ctx context.Context, key Key, id string) (Decision, error) {
	lease, err := c.lease(key, id)
	if err != nil {
		return Decision{}, err
	}
	return c.acquire(ctx, lease, c.most)
}

// Release releases a lease in the store.
func (c *Leases) Release(ctx context.Context, key Key, id string) error {
	lease, err := c.lease(key, id)
	if err != nil {
		return err
	}
	c.releaseLater(lease)
	return c.flush(ctx)
}

// Held counts the leases under a key.
func (c *Leases) Held(ctx context.Context, key Key) (int64, error) {
	lease, _ := c.lease(key, "")
	n, _, err := c.store.Held(ctx, lease.Key, 0)
	return n, err
}

// Renew renews all leases.
func (c *Leases) Renew(ctx context.Context) error { return c.renew(ctx) }

// Count counts the leases to renew or to release.
func (c *Leases) Count() int { return c.count() }

// Namespaces is how many names of limiters are remembered.
func Namespaces() int {
	namespaces.Lock()
	defer namespaces.Unlock()
	return len(namespaces.latest)
}
