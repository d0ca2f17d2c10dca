package ingress

import (
	"context"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/internal/inbound"
)

// Context is a frame on its way in. It belongs to the connection and is used
// again for the connection's next frame: neither the Context nor a pointer into
// it may be kept after the handler has returned. Its strings may be kept.
type Context struct {
	// Type is the message type as it is registered with the router. It is
	// empty for a type that is not registered and for a frame that could not be
	// read as a message; the text such a client sent is in no field, because
	// as a key or a metric's label it would let the client choose its own
	// bucket. See [Context.SentType].
	Type string
	// ConnID identifies the connection. It is new for every connection, so a
	// client that reconnects gets another one.
	ConnID string
	// IP is the client's address as Options.ClientIP of the router found it.
	IP netip.Addr
	// Identity is what Authenticate returned when the connection was opened.
	Identity Identity
	// ReceivedAt is the server's time at which the frame was in hand.
	ReceivedAt time.Time
	// Size is the frame's payload size in bytes, after decompression. A frame
	// over the router's size limit counts as one byte more than the limit, however
	// large it is.
	Size int

	// State is for the router alone, and empty in a Context that a test makes.
	State inbound.State

	rejected errors.LimitExceeded
}

// Pass is the innermost Handler: it lets the frame pass. Tests of middleware wrap it.
func Pass(c *Context) error {
	c.State.Passed = true
	return nil
}

// Context is cancelled when the connection ends. Use it for a store or a lookup
// that middleware asks; it never carries the deadline of a request.
func (c *Context) Context() context.Context {
	if c.State.Ctx == nil {
		return context.Background()
	}
	return c.State.Ctx
}

// SentType returns the type as the client sent it, registered or not, of at most
// 128 bytes; it is empty where a frame has none. It is text of the client's choosing: never use it as a key or
// a label. It allocates.
func (c *Context) SentType() string {
	return string(c.State.SentType[:min(len(c.State.SentType), envelope.MaxTypeLength)])
}

// Hold delays the frame. Meanwhile nothing more is read from the connection, so that
// its client feels the back-pressure of TCP, and nothing piles up; what is ready to
// be sent to it is sent. It returns nil after d, and an error when the connection
// has ended before; that a client has gone away is not seen meanwhile. d ≤ 0 is no
// delay.
func (c *Context) Hold(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if h, ok := c.State.Ctx.(inbound.Holder); ok {
		h.BeforeHold()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	ctx := c.Context()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reject returns e as an error, without an allocation: the error lives in the
// Context and is valid until the connection's next frame.
func (c *Context) Reject(e errors.LimitExceeded) error {
	c.rejected = e
	return &c.rejected
}
