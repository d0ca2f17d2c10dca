package router

import "github.com/wskit/wskit/errors"

// What has become of a Context after its handler has returned. It is only known in tests
// (package routertest), where no Context is used for a second message.
const (
	inHand   = iota
	returned // another goroutine has its Done channel: it is cancelled and stays so
	reused   // without a test, it would be used for another message
)

// checkReturned is called by methods that are of no use after the handler has returned.
func (c *Context) checkReturned() {
	if c.after.Load() != inHand {
		c.reportReturned()
	}
}

// checkReuse is called by the methods of context.Context, which a library may call once more.
func (c *Context) checkReuse() {
	if c.after.Load() == reused {
		c.reportReturned()
	}
}

func (c *Context) reportReturned() {
	if report := c.conn.router.watched.Load(); report != nil {
		(*report)(errors.Internal.Errorf("router: the Context of %q is used after its handler has returned; pass Context.Detach and the Conn to what goes on", c.route.typ))
	}
}
