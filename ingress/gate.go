package ingress

import (
	"context"
	"net/http"
)

// Gate decides who may open a connection. A router asks it about every WebSocket
// handshake from an origin that may connect, before it looks at who that is:
// whoever is turned away costs nothing more. ratelimit.NewGate makes one.
//
// Its methods, and those of its admissions, are called concurrently.
//
// Where Release only begins to release what a connection held, a gate also has the method
//
//	Flush(ctx context.Context) error
//
// which waits until all of it is released, and returns an error when ctx ends first.
// Router.Shutdown calls it after the last Release. A gate that wraps another one passes
// the call on.
type Gate interface {
	// Admit lets a handshake in, or returns the error that answers it: best a
	// [*Refusal]. Every admission is ended with Release, exactly once.
	Admit(r *http.Request) (Admission, error)
}

// Admission is a connection that a [Gate] let in, from its handshake to its end.
type Admission interface {
	// Identify says who opens the connection, once that has been authenticated and
	// before it is upgraded. An error answers the handshake. ctx is the request's.
	Identify(ctx context.Context, id *Identity) error
	// Release says that the connection has ended, or was never upgraded. It does not
	// wait for anything.
	Release()
}
