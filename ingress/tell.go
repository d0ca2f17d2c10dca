package ingress

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wskit/wskit/errors"
)

const (
	// tellTime is how long a client has to take the answer and to hang up: enough
	// for a page far away, and little for one that means harm.
	tellTime = 2 * time.Second
	// tellBytes is how much is read meanwhile: a close frame.
	tellBytes = 4 << 10
)

// IsUpgrade tells a WebSocket handshake from a request that is none. It does not
// check that the handshake is valid: it takes for one whatever a library might.
func IsUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && lists(r, "Upgrade", "websocket")
}

// acceptAndClose completes the handshake, closes the connection, and reports
// whether it could: the handshake must be valid, and nothing of it is done
// otherwise. It returns when the client has hung up, soon in any case.
func acceptAndClose(w http.ResponseWriter, r *http.Request, p problem) bool {
	key, ok := handshakeKey(r)
	if !ok {
		return false
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(tellTime))
	h := w.Header()
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Accept", acceptKey(key))
	// Browsers give up when none of what they offered is agreed on.
	if offered, _ := Subprotocols(r); len(offered) > 0 {
		h.Set("Sec-WebSocket-Protocol", offered[0])
	}
	var answer bytes.Buffer
	answer.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = h.Write(&answer)
	answer.WriteString("\r\n")
	code := errors.CloseTooManyRequests
	if p.Status == http.StatusServiceUnavailable {
		code = errors.CloseTryAgainLater
	}
	reason := closeReason(p)
	answer.Write([]byte{0x88, byte(2 + len(reason)), byte(code >> 8), byte(code)})
	answer.WriteString(reason)
	if _, err := nc.Write(answer.Bytes()); err != nil {
		return true
	}
	// To close while something of the client is unread would be a reset, which may
	// overtake the answer.
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, readOnly{nc}, tellBytes)
	return true
}

// closeReason tells the client when to come back. 0 would have it come back at once, again
// and again, so a wait that is not known is not told.
func closeReason(p problem) string {
	switch {
	case !p.retryable:
		return `{"retryAfterMs":null}`
	case p.RetryAfterMs == 0:
		return ""
	default:
		return fmt.Sprintf(`{"retryAfterMs":%d}`, p.RetryAfterMs)
	}
}

// readOnly keeps io.Copy from looking for other ways to read.
type readOnly struct{ net.Conn }

// handshakeKey returns the key of a handshake that is valid (RFC 6455, section
// 4.2.1).
func handshakeKey(r *http.Request) (key string, ok bool) {
	keys := r.Header.Values("Sec-WebSocket-Key")
	if !IsUpgrade(r) || !r.ProtoAtLeast(1, 1) || r.ProtoMajor > 1 || len(keys) != 1 ||
		r.Header.Get("Sec-WebSocket-Version") != "13" || !lists(r, "Connection", "upgrade") {
		return "", false
	}
	key = trim(keys[0])
	raw, err := base64.StdEncoding.DecodeString(key)
	return key, err == nil && len(raw) == 16
}

// lists reports whether a field has a token among others, in any of its lines. It
// trims as generously as the libraries do.
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

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
