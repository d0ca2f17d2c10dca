// Package leasecheck refuses leases and process timeouts that make no sense, in the stores, in package limit and in the
// router.
package leasecheck

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/errors"
)

// ProcessTimeout is for how long a killed process counts by default, in all that processes share.
const ProcessTimeout = 15 * time.Second

// MaxProcessTimeout bounds it.
const MaxProcessTimeout = 10 * time.Minute

// Timeout returns a process timeout, or the default for 0. The error names the package and the options.
func Timeout(in, options string, d time.Duration) (time.Duration, error) {
	switch {
	case d == 0:
		return ProcessTimeout, nil
	case d < time.Second || d > MaxProcessTimeout:
		return 0, fmt.Errorf("%s: %s.ProcessTimeout is %v; set it to 1s to %v (0 for %v)", in, options, d, MaxProcessTimeout, ProcessTimeout)
	}
	return d, nil
}

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
