// Package closereason writes the reason of a close frame, as PROTOCOL.md has it.
//
// Promised: the reason has at most [Max] bytes and is JSON or empty, whatever the message is.
package closereason

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wskit/wskit/internal/ceil"
)

// Max is what fits into a close frame besides the code (RFC 6455, 5.5).
const Max = 123

// Never says that waiting does not help, 0 that the wait is not known.
const Never time.Duration = -1

// Of is the reason with a wait and a message for the user, which may be empty, and is cut if it is too long.
func Of(wait time.Duration, message string) string {
	head := ""
	switch {
	case wait == Never:
		head = `"retryAfterMs":null`
	case wait > 0:
		head = `"retryAfterMs":` + strconv.FormatInt(ceil.Div(wait, time.Millisecond), 10)
	}
	if message == "" {
		if head == "" {
			return ""
		}
		return "{" + head + "}"
	}
	if head != "" {
		head += ","
	}
	head = "{" + head + `"message":`
	for cut := len(message); cut > 0; {
		if text := quoted(message[:cut]); len(head)+len(text)+1 <= Max {
			return head + text + "}"
		}
		_, size := utf8.DecodeLastRuneInString(message[:cut])
		cut -= size
	}
	return Of(wait, "")
}

// quoted is a text as JSON. It leaves < and > as they are, which would take six bytes each.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string: cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}
