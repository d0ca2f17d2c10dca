package router

import (
	"time"

	"github.com/wskit/wskit/errors"
)

// checkInFlight refuses a request while too many are handled already, or wait in place of
// an earlier one with the same idempotency key. What waits for its turn is not refused: it
// holds back reading, see turn.Rules.
func (c *Conn) checkInFlight(s *scratch, f *incoming) error {
	most := c.router.opts.Limits.MaxInFlight
	if !f.route.request || c.turn.Requests() < most || !f.route.opts.Concurrent && !c.idempotent(f) {
		return nil
	}
	return s.in.Reject(inFlight(most))
}

// inFlightRetry is the wait that a client with too many open requests gets. The time of the next
// answer is not known.
const inFlightRetry = 100 * time.Millisecond

func inFlight(most int) errors.LimitExceeded {
	return errors.LimitExceeded{
		Kind: errors.LimitInFlight, Observed: int64(most) + 1, Limit: int64(most), RetryAfter: inFlightRetry,
	}
}
