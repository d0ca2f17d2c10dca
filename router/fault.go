package router

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/wskit/wskit/errors"
)

// fault reports a fault, once.
func (r *Router) fault(f Fault) {
	if p, ok := errors.AsType[*panicFault](f.Err); ok {
		f.Err, f.Stack = p.err, p.stack
	}
	r.stats.faults.Add(1)
	if f.Stack != nil {
		r.stats.panics.Add(1)
	}
	if hooks := r.hooks.Load().faults; len(hooks) > 0 {
		for _, hook := range hooks {
			r.callOnError(hook, f)
		}
		return
	}
	attrs := []any{"error", f.Err}
	if f.Hook != "" {
		attrs = append(attrs, "hook", f.Hook)
	}
	if f.Type != "" || f.Hook == "" {
		attrs = append(attrs, "type", f.Type)
	}
	if f.Conn != nil {
		attrs = append(attrs, "conn", f.Conn.peer.ID)
	}
	if f.Stack != nil {
		attrs = append(attrs, "stack", string(f.Stack))
	}
	r.opts.Logger.Error("wskit: fault", attrs...)
}

// callOnError waits for the hook, in a goroutine that it may end by
// runtime.Goexit without taking the connection's along.
func (r *Router) callOnError(hook func(Fault), f Fault) {
	var done sync.WaitGroup
	done.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				r.opts.Logger.Error("wskit: OnError panicked", "panic", v, "stack", string(stack()))
			}
		}()
		hook(f)
	})
	done.Wait()
}

// containPanic is deferred by a call of a hook that returns nothing. A panic becomes a fault.
func (r *Router) containPanic(name string, c *Conn, typ string) {
	if v := recover(); v != nil {
		r.fault(Fault{Conn: c, Type: typ, Hook: name, Err: panicError(name, v), Stack: stack()})
	}
}

var errSwallowed = errors.New("router: middleware returned nil without calling the next handler")

// panicFault is a panic on its way to be answered and reported. It does not
// unwrap: a panic is a fault of the server, whatever was thrown.
type panicFault struct {
	err   error
	stack []byte
}

func (p *panicFault) Error() string { return p.err.Error() }

// panicked makes an error of a recovered panic.
func (c *Conn) panicked(typ string, v any) error {
	where := "middleware"
	if typ != "" {
		where = "the handling of " + typ
	}
	return &panicFault{err: panicError(where, v), stack: stack()}
}

func panicError(where string, v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("panic in %s: %w", where, err)
	}
	return fmt.Errorf("panic in %s: %v", where, v)
}

// panickedOutside reports a panic of what an option has set, and returns it as an error. v is nil for runtime.Goexit.
func (r *Router) panickedOutside(where string, v any) error {
	err := errors.New("runtime.Goexit called by " + where)
	if v != nil {
		err = panicError(where, v)
	}
	r.fault(Fault{Err: err, Stack: stack()})
	return err
}

func stack() []byte { return debug.Stack() }

// exited is the last that the reader does whose goroutine was ended by
// runtime.Goexit: as with a handler that does this, the frame is answered, the
// connection is given up in good order, and another goroutine reads it to its end.
func (c *Conn) exited(by string, f *incoming) {
	err := c.panicked(f.typ(), "runtime.Goexit called by "+by)
	c.router.count(f.route, err)
	c.refuse(f.typ(), f.env.CorrelationID, err)
	c.Close(errors.CloseInternal, "internal error")
	go c.read()
}
