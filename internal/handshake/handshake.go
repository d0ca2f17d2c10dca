// Package handshake is the server's side of the opening handshake of RFC 6455,
// section 4.2, and of the negotiation of permessage-deflate (RFC 7692, section 7).
//
// It takes the connection over before anything is answered, and returns the 101 for
// the caller to write: a response that cannot be taken over can still be answered
// with an error.
package handshake

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// Error says what is wrong with a handshake.
type Error struct {
	Status int // of the answer
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Answer refuses the handshake with plain text.
func (e *Error) Answer(w http.ResponseWriter) {
	switch e.Status {
	case http.StatusUpgradeRequired:
		w.Header().Add("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
	case http.StatusBadRequest:
		w.Header().Set("Sec-WebSocket-Version", version)
	}
	http.Error(w, e.Text, e.Status)
}

const version = "13"

// Fields in the form in which package http keeps them. It makes a new string of any other at each look.
const (
	fieldKey        = "Sec-Websocket-Key"
	fieldVersion    = "Sec-Websocket-Version"
	fieldProtocol   = "Sec-Websocket-Protocol"
	fieldExtensions = "Sec-Websocket-Extensions"
	fieldAccept     = "Sec-Websocket-Accept"
)

// IsUpgrade reports whether a request asks for an upgrade to WebSocket. It does not
// check that the handshake is valid.
func IsUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && lists(r, "Upgrade", "websocket")
}

// Key returns the key of a valid handshake (RFC 6455, section 4.2.1).
func Key(r *http.Request) (string, *Error) {
	keys := r.Header[fieldKey]
	switch {
	case !r.ProtoAtLeast(1, 1) || r.ProtoMajor > 1:
		return "", &Error{http.StatusUpgradeRequired, fmt.Sprintf("a WebSocket handshake needs HTTP/1.1, not %q", r.Proto)}
	case !IsUpgrade(r):
		return "", &Error{http.StatusUpgradeRequired, "the request is no WebSocket handshake: it is not a GET with Upgrade: websocket"}
	case !lists(r, "Connection", "Upgrade"):
		return "", &Error{http.StatusUpgradeRequired, "the header Connection does not hold Upgrade"}
	case r.Header.Get(fieldVersion) != version:
		return "", &Error{http.StatusBadRequest, "the header Sec-WebSocket-Version is not " + version}
	case len(keys) != 1:
		return "", &Error{http.StatusBadRequest, fmt.Sprintf("the header Sec-WebSocket-Key is there %d times, not once", len(keys))}
	}
	key := strings.TrimSpace(keys[0])
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 16 {
		return "", &Error{http.StatusBadRequest, "the header Sec-WebSocket-Key is not 16 bytes in base64"}
	}
	return key, nil
}

// Response returns the 101 that accepts a handshake, with what else h holds: the
// fields that RFC 6455, section 4.2.2, demands take precedence.
func Response(h http.Header, key string) []byte {
	for _, field := range [...]string{"Upgrade", "Connection", fieldAccept} {
		delete(h, field)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	var b bytes.Buffer
	b.Grow(256)
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
	b.Write(base64.StdEncoding.AppendEncode(b.AvailableBuffer(), sum[:]))
	b.WriteString("\r\n")
	_ = h.Write(&b)
	b.WriteString("\r\n")
	return b.Bytes()
}

// lists reports whether a field has a token among others, in any of its lines.
func lists(r *http.Request, field, token string) bool {
	for _, line := range r.Header.Values(field) {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
