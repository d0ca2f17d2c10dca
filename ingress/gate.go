package ingress

import (
	"context"
	"net/http"
	"net/netip"
)

// Gate decides which connections may be opened. A router calls it for every WebSocket
// handshake from an allowed origin, before authentication, so that a refusal costs little.
// gate.New makes one.
//
// Its methods, and those of its admissions, are called concurrently.
//
// If Release does not wait until everything is released, a gate also has the method
//
//	Flush(ctx context.Context) error
//
// which waits for that, and returns an error when ctx ends first. Router.Shutdown calls it
// after the last Release. A gate that wraps another one forwards the call.
type Gate interface {
	// Admit admits a handshake, or returns the error that answers it, preferably a
	// [*Refusal]. ip is the client's address as the router finds it (Options.ClientIP). Release is called exactly
	// once for every admission.
	Admit(r *http.Request, ip netip.Addr) (Admission, error)
}

// Admission is a connection that a [Gate] has admitted, from its handshake to its end.
//
// An admission that adds header fields to the answer of the handshake also has the method
//
//	Header() http.Header
//
// which is called once, after Identify.
type Admission interface {
	// Identify is called with the identity when the connection has been authenticated,
	// before it is upgraded. An error answers the handshake. ctx is that of the request.
	Identify(ctx context.Context, id *Identity) error
	// Release is called when the connection has ended, or was not upgraded. It does not
	// block.
	Release()
}
