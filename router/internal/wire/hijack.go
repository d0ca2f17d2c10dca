package wire

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"time"

	"github.com/wskit/wskit/internal/httpclose"
)

// ResponseWriter is an http.ResponseWriter whose Hijack gives the library a
// Stream in place of the socket.
//
// The connection is hijacked before the status 101 is written, so that another status can
// be when it cannot: then Err says why, and nothing has been sent.
type ResponseWriter struct {
	http.ResponseWriter
	Request *http.Request
	Epoch   time.Time
	// Stream is set once the connection has been hijacked.
	Stream *Stream
	// Err is why it could not be.
	Err error
}

// responseTime bounds the writing of the answer, which nearly always fits the socket's
// buffer.
const responseTime = 5 * time.Second

// WriteHeader implements http.ResponseWriter.
func (w *ResponseWriter) WriteHeader(status int) {
	switch {
	case status == http.StatusSwitchingProtocols:
		w.Err = w.switchProtocols()
	case w.Err == nil:
		httpclose.AfterAnswer(w.ResponseWriter, w.Request)
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *ResponseWriter) Write(b []byte) (int, error) {
	if w.Err != nil {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func (w *ResponseWriter) switchProtocols() error {
	nc, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	h := w.Header()
	if err != nil {
		for _, field := range []string{"Connection", "Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"} {
			h.Del(field)
		}
		return err
	}
	var answer bytes.Buffer
	answer.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = h.Write(&answer)
	answer.WriteString("\r\n")
	// Setting a deadline and writing fail only for a connection that is closed, as reading
	// will find out. The server's read and write timeouts were meant for the request.
	_ = nc.SetDeadline(time.Now().Add(responseTime))
	_, _ = nc.Write(answer.Bytes())
	_ = nc.SetDeadline(time.Time{})
	early, _ := brw.Reader.Peek(brw.Reader.Buffered())
	w.Stream = NewStream(nc, early, w.Epoch)
	return nil
}

// Hijack implements http.Hijacker.
func (w *ResponseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.Err != nil {
		return nil, nil, w.Err
	}
	return w.Stream, w.Stream.buffers(), nil
}
