package ingress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/handshake"
)

const (
	// tellTime is how long a client has to take the answer and to hang up: enough
	// for a page far away, and little for one that means harm.
	tellTime = 2 * time.Second
	// tellBytes is how much is read meanwhile: a close frame.
	tellBytes = 4 << 10
)

// acceptAndClose completes the handshake, closes the connection, and reports
// whether it could: the handshake must be valid, and nothing of it is done
// otherwise. It returns when the client has hung up, soon in any case.
func acceptAndClose(w http.ResponseWriter, r *http.Request, p problem) bool {
	key, invalid := handshake.Key(r)
	if invalid != nil {
		return false
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(tellTime))
	// Browsers give up when none of what they offered is agreed on.
	if offered, _ := handshake.Subprotocols(r); len(offered) > 0 {
		w.Header().Set("Sec-WebSocket-Protocol", offered[0])
	}
	answer := handshake.Response(w.Header(), key)
	code := errors.CloseTooManyRequests
	if p.Status == http.StatusServiceUnavailable {
		code = errors.CloseTryAgainLater
	}
	reason := closeReason(p)
	answer = append(answer, 0x88, byte(2+len(reason)), byte(code>>8), byte(code))
	answer = append(answer, reason...)
	if _, err := nc.Write(answer); err != nil {
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
