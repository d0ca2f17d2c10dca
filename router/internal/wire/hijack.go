package wire

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// ResponseWriter is an http.ResponseWriter whose Hijack gives the library a
// Stream in place of the socket.
type ResponseWriter struct {
	http.ResponseWriter
	Epoch time.Time
	// Stream is set once the connection has been hijacked.
	Stream *Stream
}

// Hijack implements http.Hijacker.
func (w *ResponseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// The server's read and write timeouts were meant for the request. This fails
	// only for a connection that is closed, as reading will find out.
	_ = nc.SetDeadline(time.Time{})
	early, _ := brw.Reader.Peek(brw.Reader.Buffered())
	w.Stream = NewStream(nc, early, w.Epoch)
	return w.Stream, w.Stream.buffers(), nil
}
