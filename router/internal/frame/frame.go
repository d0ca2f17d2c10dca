// Package frame has buffers in which frames are written.
//
// A frame is written once, with room for its header at the beginning, so it is queued without a copy. Needed is the
// size of that room, of package wire. Promised: strings and numbers are valid JSON, whatever they hold; buffers are
// used again, but for large ones. A buffer is for one goroutine.
package frame

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/router/internal/wire"
)

// Buffer is a frame being written: room for its header, then the JSON.
type Buffer struct{ bytes.Buffer }

// HeaderRoom is the room for a header, empty.
var HeaderRoom [wire.HeaderRoom]byte

// Kept is the largest capacity with which a buffer is used again, in bytes.
const Kept = 64 << 10

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// New returns a buffer with room for a header. [Buffer.Free] gives it back.
func New() *Buffer {
	b := buffers.Get().(*Buffer)
	b.Clear()
	return b
}

// Clear leaves only room for the header.
func (b *Buffer) Clear() {
	b.Reset()
	b.Write(HeaderRoom[:])
}

// Free gives the buffer back. It must not be used any more, nor what Bytes returned.
func (b *Buffer) Free() {
	if b.Cap() <= Kept {
		buffers.Put(b)
	}
}

// Text appends a JSON string.
func (b *Buffer) Text(s string) {
	if !utf8.ValidString(s) {
		b.Write(Quote(s))
		return
	}
	q, _ := jsontext.AppendQuote(b.AvailableBuffer(), s)
	b.Write(q)
}

// Int appends a number.
func (b *Buffer) Int(n int64) { b.Write(strconv.AppendInt(b.AvailableBuffer(), n, 10)) }

// Quote returns a JSON string. What is not UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		b, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

// Types of frames that answer a message which has failed.
const (
	RPCError = "RPC_ERROR" // with a correlation id
	Error    = "ERROR"
)

// Reserved reports whether a type belongs to the protocol.
func Reserved[S ~string | ~[]byte](typ S) bool {
	s := string(typ)
	return strings.HasPrefix(s, "__") || strings.HasPrefix(s, "$ws:") || s == Error || s == RPCError
}

// Failed is a message that is answered with an error.
type Failed struct {
	Type string // its registered type; empty: none
	Sent []byte // its type as it was sent, if none is registered; nil: not known
	ID   []byte // its correlation id, as JSON; nil: none
}

// Failure appends a frame that answers m, up to the code in its payload.
func (b *Buffer) Failure(m Failed) {
	if m.ID != nil {
		b.Grow(64 + len(m.ID))
		p := append(b.AvailableBuffer(), `{"type":"`+RPCError+`","meta":{"correlationId":`...)
		p = append(append(p, m.ID...), `},"payload":{`...)
		b.Write(p)
		return
	}
	b.WriteString(`{"type":"` + Error + `","payload":{`)
	if m.Type == "" && m.Sent == nil {
		return
	}
	b.WriteString(`"type":`)
	if m.Type != "" {
		b.Text(m.Type)
	} else {
		q, _ := jsontext.AppendQuote(b.AvailableBuffer(), m.Sent) // has been read as a string
		b.Write(q)
	}
	b.WriteByte(',')
}
