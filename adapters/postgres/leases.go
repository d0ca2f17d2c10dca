package postgres

import (
	"context"
	"math"
	"time"

	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/limit"
)

// micros cuts off what would not fit once the instant is added.
func micros(d time.Duration) int64 { return min(d.Microseconds(), math.MaxInt64/1024) }

// Acquire implements [limit.LeaseStore].
func (s *store) Acquire(
	ctx context.Context, lease limit.Lease, most int64, leaseTime time.Duration,
) (d limit.Decision, err error) {
	if err := leasecheck.Check(most, leaseTime); err != nil {
		return d, err
	}
	var at, held, first int64
	err = s.call(ctx, "acquiring a lease", func(ctx context.Context) error {
		return s.decisions.QueryRow(ctx, s.sql.acquire, s.instant(), keyBytes(lease.Key), []byte(lease.ID), micros(leaseTime), most,
			leaseTolerance).
			Scan(&at, &held, &first)
	})
	if err != nil {
		return d, err
	}
	d = limit.Decision{Allowed: held < most, Limit: most, Remaining: max(0, most-held-1), At: at}
	if first > at {
		d.ResetAfter = time.Duration(first-at) * time.Microsecond
	}
	return d, nil
}

// Renew implements [limit.LeaseStore], by one statement for 10,000 leases.
func (s *store) Renew(ctx context.Context, leases []limit.Lease, leaseTime time.Duration) error {
	if err := leasecheck.Check(1, leaseTime); err != nil {
		return err
	}
	return s.ofLeases(leases, func(keys, ids [][]byte) error {
		return s.call(ctx, "renewing leases", func(ctx context.Context) error {
			_, err := s.decisions.Exec(ctx, s.sql.renew, s.instant(), keys, ids, micros(leaseTime))
			return err
		})
	})
}

// Release implements [limit.LeaseStore], in the way of Renew.
func (s *store) Release(ctx context.Context, leases []limit.Lease) error {
	return s.ofLeases(leases, func(keys, ids [][]byte) error {
		return s.call(ctx, "releasing leases", func(ctx context.Context) error {
			_, err := s.decisions.Exec(ctx, s.sql.release, keys, ids)
			return err
		})
	})
}

const leasesAtOnce = 10_000

// leaseTolerance is for how many microseconds a lease is kept after its end.
const leaseTolerance = int64(limit.ClockTolerance / time.Microsecond)

// ofLeases calls do with the keys and ids of leases, each once.
func (s *store) ofLeases(leases []limit.Lease, do func(keys, ids [][]byte) error) error {
	seen := make(map[limit.Lease]bool, len(leases))
	var keys, ids [][]byte
	for i, lease := range leases {
		if !seen[lease] {
			seen[lease] = true
			keys, ids = append(keys, keyBytes(lease.Key)), append(ids, []byte(lease.ID))
		}
		if len(keys) > 0 && (len(keys) == leasesAtOnce || i == len(leases)-1) {
			if err := do(keys, ids); err != nil {
				return err
			}
			keys, ids = nil, nil
		}
	}
	return nil
}

// Held implements [limit.LeaseStore].
func (s *store) Held(ctx context.Context, key string, n int) (count int64, ids []string, err error) {
	err = s.call(ctx, "counting leases", func(ctx context.Context) error {
		var listed [][]byte
		err := s.decisions.QueryRow(ctx, s.sql.held, s.instant(), keyBytes(key), max(n, 0)).Scan(&count, &listed)
		for _, id := range listed {
			ids = append(ids, string(id))
		}
		return err
	})
	return count, ids, err
}
