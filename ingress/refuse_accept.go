package ingress

import (
	"io"
	"net"
	"net/http"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/closereason"
	"github.com/wskit/wskit/internal/handshake"
	"github.com/wskit/wskit/internal/problem"
)

const (
	// acceptTime is how long a client has to read the answer and to disconnect: enough for a
	// distant page, and little for an attacker.
	acceptTime = 2 * time.Second
	// acceptBytes is how much is read until then: a close frame.
	acceptBytes = 4 << 10
)

// acceptCodes are the close codes of the refusals that can be accepted.
var acceptCodes = map[int]errors.CloseCode{
	http.StatusUnauthorized:       errors.CloseUnauthenticated,
	http.StatusForbidden:          errors.ClosePermissionDenied,
	http.StatusTooManyRequests:    errors.CloseTooManyRequests,
	http.StatusServiceUnavailable: errors.CloseTryAgainLater,
}

// acceptAndClose completes the handshake, closes the connection, and reports
// whether it could: the handshake must be valid, and nothing of it is done
// otherwise. It returns when the client has disconnected, or after acceptTime.
func acceptAndClose(w http.ResponseWriter, r *http.Request, p problem.Problem, retryable bool) bool {
	code, ok := acceptCodes[p.Status]
	if !ok {
		return false
	}
	key, invalid := handshake.Key(r)
	if invalid != nil {
		return false
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(acceptTime))
	if selected := handshake.Select(r, nil); selected != "" {
		w.Header().Set("Sec-WebSocket-Protocol", selected)
	}
	answer := handshake.Response(w.Header(), key)
	reason := closeReason(p, retryable)
	answer = append(answer, 0x88, byte(2+len(reason)), byte(code>>8), byte(code))
	answer = append(answer, reason...)
	if _, err := nc.Write(answer); err != nil {
		return true
	}
	// Closing with unread bytes would send a reset, which may overtake the answer.
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, readOnly{nc}, acceptBytes)
	return true
}

// closeReason has the time after which the client may reconnect, unless it is not known, and the text of the error.
func closeReason(p problem.Problem, retryable bool) string {
	wait := time.Duration(p.RetryAfterMs) * time.Millisecond
	if !retryable {
		wait = closereason.Never
	}
	return closereason.Of(wait, p.Detail)
}

// readOnly keeps io.Copy from looking for other ways to read.
type readOnly struct{ net.Conn }
