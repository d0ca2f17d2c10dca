// Package httpclose ends the connection of a request that is refused, without waiting
// for the client.
package httpclose

import (
	"net/http"
	"time"

	"github.com/wskit/wskit/errors"
)

// ErrBody refuses a WebSocket handshake with a body: net/http might wait for it when the
// connection is hijacked.
var ErrBody = errors.InvalidArgument.New("a WebSocket handshake has no body")

// HasBody reports whether a request announces a body.
func HasBody(r *http.Request) bool {
	return r.ContentLength != 0 || len(r.TransferEncoding) > 0
}

// AfterAnswer has the server close the connection when it has sent the answer, which
// must not have begun yet.
//
// net/http reads up to 256 KiB of a body that the handler has left, before it sends the
// answer and again after that, and has no deadline for it but Server.ReadTimeout. Here
// what has not arrived with the header is not read. That needs a ResponseWriter whose
// wrappers all have the method Unwrap; otherwise only ReadTimeout bounds the reading after
// the answer.
//
// A connection of HTTP/2 carries other requests, too: it stays open, and its server does
// not wait for the bodies.
func AfterAnswer(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 {
		return
	}
	// net/http looks at the first value alone; a status of 426 adds "Upgrade".
	h := w.Header()
	h["Connection"] = append([]string{"close"}, h["Connection"]...)
	if HasBody(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // long ago
	}
}
