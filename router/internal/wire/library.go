package wire

import (
	"bufio"
	"net"
	"net/http"
	"runtime"

	"github.com/coder/websocket"
)

// Library returns a connection of the WebSocket library on the stream, for the
// frames that [Stream.Next] leaves to it. It is for streams without compression:
// there the library keeps nothing from one message to the next, so a connection of
// its own is made when it is needed, which for most clients is at the closing
// handshake. An idle connection would spend more than a third of its memory on it.
//
// The library makes connections by accepting handshakes only. The real one is over;
// this one is with ourselves.
func (s *Stream) Library() (*websocket.Conn, error) {
	return websocket.Accept(&formality{stream: s}, handshake, &websocket.AcceptOptions{InsecureSkipVerify: true})
}

// Forget is for the connection that the real handshake made, when it is not to be
// kept: collecting it must not close the stream.
func Forget(c *websocket.Conn) { runtime.SetFinalizer(c, nil) }

// handshake is a request that the library takes for one. It is only read.
var handshake = &http.Request{
	Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	Header: http.Header{
		"Connection":            {"Upgrade"},
		"Upgrade":               {"websocket"},
		"Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key":     {"AAAAAAAAAAAAAAAAAAAAAA=="},
	},
}

// formality is a response that nobody gets.
type formality struct {
	stream *Stream
	header http.Header
}

func (f *formality) Header() http.Header {
	if f.header == nil {
		f.header = make(http.Header)
	}
	return f.header
}

func (f *formality) WriteHeader(int)             {}
func (f *formality) Write(b []byte) (int, error) { return len(b), nil }

func (f *formality) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return f.stream, f.stream.buffers(), nil
}

// The library's own buffers. Reading, every byte has been through a Stream's
// buffer already, so the smallest serves. Writing, it has to hold a whole
// control frame, so that it reaches [Stream.Write] in one piece.
const (
	libraryReadBuffer  = 16
	libraryWriteBuffer = 2 + maxControl + 1
)

func (s *Stream) buffers() *bufio.ReadWriter {
	return bufio.NewReadWriter(
		bufio.NewReaderSize(s, libraryReadBuffer),
		bufio.NewWriterSize(s, libraryWriteBuffer),
	)
}
