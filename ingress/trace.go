package ingress

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// TraceID returns the trace id of a request: that of its traceparent field (W3C Trace
// Context) if it is valid, otherwise a new one. It always has 32 hexadecimal digits.
func TraceID(r *http.Request) string {
	if lines := r.Header["Traceparent"]; len(lines) == 1 {
		if id, ok := traceOf(lines[0]); ok {
			return id
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hexText(id)
}

func hexText(b [16]byte) string {
	var text [32]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// traceOf reads version-trace-parent-flags (Trace Context, section 3.2). Later
// versions may append to that.
func traceOf(s string) (id string, ok bool) {
	const length = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(s) < length || len(s) > 512 {
		return "", false
	}
	version, id, parent, flags := s[:2], s[3:35], s[36:52], s[53:55]
	switch {
	case s[2] != '-' || s[35] != '-' || s[52] != '-':
	case !isHex(version) || !isHex(id) || !isHex(parent) || !isHex(flags):
	case version == "ff" || version == "00" && len(s) > length || len(s) > length && s[length] != '-':
	case strings.Trim(id, "0") == "" || strings.Trim(parent, "0") == "":
	default:
		return id, true
	}
	return "", false
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
