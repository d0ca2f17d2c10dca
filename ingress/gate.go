package ingress

import (
	"context"
	"net/http"
)

// Gate decides who may open a connection. A router asks it about every WebSocket
// handshake from an origin that may connect, before it looks at who that is:
// whoever is turned away costs nothing more. ratelimit.NewDoor makes one.
//
// Its methods, and those of its visits, are called concurrently.
//
// Where Leave only begins to release what a connection held, a gate also has the method
//
//	Flush(ctx context.Context) error
//
// which waits until all of it is released, and returns an error when ctx ends first.
// Router.Shutdown calls it after the last Leave. A gate that wraps another one passes
// the call on.
type Gate interface {
	// Enter lets a handshake in, or returns the error that answers it: best a
	// [*Refusal]. Every visit is ended with Leave, exactly once.
	Enter(r *http.Request) (Visit, error)
}

// Visit is a connection that a [Gate] let in, from its handshake to its end.
type Visit interface {
	// Identify says who opens the connection, once that has been authenticated and
	// before it is upgraded. An error answers the handshake. ctx is the request's.
	Identify(ctx context.Context, id *Identity) error
	// Leave says that the connection has ended, or was never upgraded. It does not
	// wait for anything.
	Leave()
}
