package router

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// allowance is how many messages of the protocol, such as heartbeats and resumes, a connection may send without passing
// the application's middleware: that they are refused there would leave a stopped request running, or a client without
// its topics. It is used up by those alone that nothing open bounds, and comes back by one a second. A client that
// keeps to the protocol never uses it up; what one sends beyond it passes the middleware like any other message, so
// that a flood is limited. It is the reader's.
type allowance struct {
	used uint16
	at   uint16 // the second, after the epoch, at which it was looked at last
}

// maxAllowance is enough for a resume of each topic by itself, several times, and a heartbeat each second.
const maxAllowance = 1000

// take reports whether there is anything left, and takes one.
func (a *allowance) take(now time.Duration) bool {
	second := uint16(now / time.Second) // it wraps, as the difference does
	a.used -= min(a.used, second-a.at)
	a.at = second
	if a.used >= maxAllowance {
		return false
	}
	a.used++
	return true
}

// passesFreely reports whether a message of the protocol does not pass the application's middleware: it stops a request
// or answers a question that is open, or there is an allowance for it.
func (c *Conn) passesFreely(f *incoming) bool {
	if f.route == nil || !f.route.protocol || f.tooLarge {
		return false
	}
	if id := f.env.CorrelationID; id != nil {
		switch f.route.typ {
		case typeAbort:
			for _, k := range c.turn.Open() {
				if k.route.request && bytes.Equal(k.id, id) {
					return true
				}
			}
		case typeAnswer:
			if qs := c.questions.Load(); qs != nil {
				text, _ := jsontext.AppendUnquote(nil, id) // it has been read as a string
				if qs.IsOpen(string(text)) {
					return true
				}
			}
		}
	}
	return c.allowance.take(c.stream.Heard())
}
