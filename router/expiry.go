package router

import (
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/life"
)

// An identity expires by the wall clock, as tokens do. The wheel uses the monotonic clock,
// which differs when the wall clock is set, or the machine was asleep. So the wheel looks at an
// identity that expires at least once in clockCheck. A message that comes after the expiry is
// refused in any case.
const clockCheck = 30 * time.Second

var errExpired = errors.Unauthenticated.New("the identity has expired")

// checkIdentity closes a connection whose identity has expired, and sends $ws:expiring before
// that. It is called by the wheel. A draining connection handles no more messages: it is not
// closed before those that it has accepted are answered.
func (c *Conn) checkIdentity(now time.Duration) {
	renewal := c.renewal.Load() // before the identity, which a renewal replaces before it ends
	id := c.identity.Load()
	if id.ExpiresAt.IsZero() || c.life.State() != life.Open {
		return
	}
	left := time.Until(id.ExpiresAt)
	switch notice := c.router.opts.Liveness.ExpiryNotice; {
	case left <= 0 && time.Duration(renewal) <= now:
		c.Close(errors.CloseUnauthenticated, "identity expired")
	case left > 0 && left <= notice && c.liveness.noticed != id:
		c.liveness.noticed = id
		c.sendExpiring(left)
	}
}

// sendExpiring rounds down: a client that renews within the time is never late.
func (c *Conn) sendExpiring(left time.Duration) {
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeExpiring + `","payload":{"inMs":`)
	b.Int(left.Milliseconds())
	b.WriteString("}}")
	_ = c.sendNow(b) // or the connection is being closed
}

// identityDue is when checkIdentity has something to do, or -1.
func (c *Conn) identityDue(id *ingress.Identity, noticed bool, now time.Duration) time.Duration {
	if id.ExpiresAt.IsZero() || c.life.State() != life.Open {
		return -1
	}
	left := time.Until(id.ExpiresAt)
	if !noticed {
		left -= max(c.router.opts.Liveness.ExpiryNotice, 0)
	}
	return now + min(max(left, 0), clockCheck)
}
