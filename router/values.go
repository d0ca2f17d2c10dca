package router

import (
	"context"
	"net/http"

	"github.com/wskit/wskit/internal/inbound"
)

// selfKey is the key under which a message's Context returns itself.
type selfKey struct{}

// Value implements context.Context. It returns a value that middleware has set for the message
// (SetValues of this type and of ingress.Context), or else one of the handshake
// (Options.Handshake.ConnContext).
func (c *Context) Value(key any) any {
	c.checkReuse()
	if key == (selfKey{}) {
		return c
	}
	if c.values != nil {
		if v := c.values.Value(key); v != nil {
			return v
		}
	}
	return c.conn.value(key)
}

// SetValues gives the message the values of ctx, for the handlers that run within this one and
// all that they call with the Context. Derive ctx from [Context.Detach], so that earlier values
// are kept, and not from c itself: SetValues panics then.
//
//	c.SetValues(context.WithValue(c.Detach(), loggerKey{}, logger))
//
// Only the values of ctx count, not its cancellation or deadline. They end with the message.
// Call it before another goroutine uses the Context.
func (c *Context) SetValues(ctx context.Context) {
	if ctx.Value(selfKey{}) != nil {
		panic("router: SetValues is called with a context that is derived from the Context of a message; derive it from Context.Detach: c.SetValues(context.WithValue(c.Detach(), key, value))")
	}
	c.values = context.WithoutCancel(ctx)
}

// Detach returns a context for work that goes on after the handler has returned. It has the
// values of the message. It is cancelled when the connection ends; context.WithoutCancel of
// it never is. (context.WithoutCancel of c itself would refer to c, which is used again for
// other messages.)
//
//	ctx := context.WithoutCancel(c.Detach())
//	go audit(ctx, entry)
//
// Router.Shutdown does not wait for such work.
func (c *Context) Detach() context.Context {
	c.checkReturned()
	if c.values == nil {
		return c.conn.Context()
	}
	return &inbound.Values{Context: c.conn.Context(), Of: c.values}
}

// connContext returns the context of a connection that has values, nil for one without.
func (r *Router) connContext(req *http.Request) (x *connContext, err error) {
	if r.opts.Handshake.ConnContext == nil {
		return nil, nil
	}
	defer r.containHook("ConnContext", nil, &err)
	if ctx := r.opts.Handshake.ConnContext(req); ctx != nil {
		x = &connContext{values: context.WithoutCancel(ctx)}
	}
	return x, nil
}
