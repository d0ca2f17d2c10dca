package router

import "context"

// lasting returns ctx for something that is published or sent: what a handler or OnClose announces reaches the others,
// although the client of that connection is gone. If ctx has been cancelled with its message or connection, the result
// has its values alone. A deadline that is over, and a context that the application has cancelled, stay as they are.
func lasting(ctx context.Context) context.Context {
	switch {
	case ctx.Err() != context.Canceled:
		return ctx
	case context.Cause(ctx) == ErrClosed: // of a Conn
		return context.WithoutCancel(ctx)
	}
	if k, ok := ctx.Value(selfKey{}).(*Context); ok && k.Err() == context.Canceled {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// detached returns a context with the values and the deadline of ctx, which is not cancelled with it.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	alone := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(alone, deadline)
	}
	return alone, func() {}
}
