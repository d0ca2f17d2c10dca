package router

import (
	"time"

	"github.com/wskit/wskit/errors"
)

const (
	// maxToken is the length of the longest token of a renewal, in bytes.
	maxToken = 8 << 10
	// renewTimeout is the maximum time for a renewal. An identity that expires while a renewal
	// is under way stays connected for as long.
	renewTimeout = 10 * time.Second
)

var (
	errNoRenew = errors.Unimplemented.New("this server does not renew identities")
	errToken   = errors.InvalidArgument.Errorf("payload.token must have 1 to %d bytes", maxToken)
	errNewUser = errors.PermissionDenied.New("a renewal cannot change the user; open another connection")
)

type renewal struct {
	Token string `json:"token"`
}

// renewed is the answer. null stands for an identity that does not expire.
type renewed struct {
	ExpiresAt *int64 `json:"expiresAt"` // in milliseconds since the Unix epoch
}

// renewRoute is the route of $ws:renew.
func (r *Router) renewRoute() *route {
	return protocolRequest(r, typeRenew, typeRenewed, renewTimeout, renew)
}

// renew replaces the identity of a connection. It is the handler of $ws:renew.
func renew(c *Context, m renewal) (renewed, error) {
	if len(m.Token) == 0 || len(m.Token) > maxToken {
		return renewed{}, errToken
	}
	conn, r := c.conn, c.conn.router
	at, _ := c.Deadline()
	until := at.Sub(r.epoch) + time.Second // the answer is sent before the connection is closed
	if !conn.renewal.CompareAndSwap(0, int64(until)) {
		return renewed{}, errOneAtATime()
	}
	defer conn.renewal.Store(0) // after the identity has been replaced, see checkIdentity
	id, err := r.opts.Renew(c, conn, m.Token)
	if err != nil {
		return renewed{}, err
	}
	old := conn.identity.Load()
	switch {
	case id.Tenant != old.Tenant || id.User != old.User:
		return renewed{}, errNewUser
	case id.Expired(time.Now()):
		return renewed{}, errExpired
	case c.hasAnswer(): // it was aborted, or its time is over
		return renewed{}, nil
	}
	id.OwnAs(old)
	conn.identity.Store(&id)
	if r.opts.Recheck != nil {
		go conn.recheck()
	}
	if id.ExpiresAt.IsZero() {
		return renewed{}, nil
	}
	r.wheel.Schedule(&conn.timer, conn.identityDue(&id, false, r.now()))
	ms := id.ExpiresAt.UnixMilli()
	return renewed{ExpiresAt: &ms}, nil
}
