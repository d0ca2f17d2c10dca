// Package leasecheck refuses leases that make no sense, in the stores and in package limit.
package leasecheck

import (
	"time"

	"github.com/wskit/wskit/errors"
)

// Check refuses a limit below 1 and a lease time under a millisecond.
func Check(limit int64, leaseTime time.Duration) error {
	switch {
	case limit < 1:
		return errors.InvalidArgument.Errorf("limit: %d leases are none: at least 1 must be allowed", limit)
	case leaseTime < time.Millisecond:
		return errors.InvalidArgument.Errorf("limit: the lease time of %v is under 1 ms", leaseTime)
	}
	return nil
}
