package ingress

import (
	"context"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/internal/inbound"
)

// Context describes a frame. It is used again for the connection's next frame: neither the
// Context nor a pointer into it may be kept after the handler has returned. Its strings may
// be kept. It must not be used by several goroutines at once.
type Context struct {
	// Type is the message type as it is registered with the router. It is empty for a type that is
	// not registered, and for a frame that could not be read as a message. Such a text from the
	// client is in no field: used as a key or as the label of a metric, it would let clients make
	// any number of them. See [Context.SentType].
	Type string
	// ConnID identifies the connection. It is new for every connection, so a
	// client that reconnects gets another one.
	ConnID string
	// IP is the client's address as Options.ClientIP of the router found it.
	IP netip.Addr
	// Identity is what Authenticate of the router returned, or Renew since.
	Identity Identity
	// ReceivedAt is the server's time at which the frame was complete.
	ReceivedAt time.Time
	// Size is the frame's payload size in bytes, after decompression. A frame
	// over the router's size limit counts as one byte more than the limit, however
	// large it is.
	Size int
	// Exempt means that the frame is not charged (router.RouteOptions.Exempt): rate limits let
	// it pass. Bans and permissions still apply to it.
	Exempt bool
	// Peek means that there is no frame: the client asks for its limits for messages of the type
	// ($ws:limits), and the limits report what is left. Middleware that counts or records frames
	// must not count it. An error is the answer to the client.
	Peek bool

	// State is for the router alone, and empty in a Context that a test makes.
	State inbound.State

	rejected errors.LimitExceeded
}

// Pass is the innermost Handler: it lets the frame pass. Tests of middleware wrap it.
func Pass(c *Context) error {
	c.State.Passed = true
	return nil
}

// Context is cancelled when the connection ends. It has the values of the handshake
// (router.Options.Handshake.ConnContext) and those of [Context.SetValues], and no deadline. Pass it to
// stores and lookups.
func (c *Context) Context() context.Context {
	if c.State.Values != nil {
		return c.State.Values
	}
	return c.connection()
}

func (c *Context) connection() context.Context {
	if c.State.Ctx == nil {
		return context.Background()
	}
	return c.State.Ctx
}

// SetValues gives the message the values of ctx: Context, the router's Context and what is
// derived from them return them. Derive ctx from Context, so that earlier values are kept:
//
//	c.SetValues(context.WithValue(c.Context(), traceKey{}, id))
//
// Only the values of ctx are used, not its cancellation or deadline. They end with the message;
// [Key] stores a value with the connection.
func (c *Context) SetValues(ctx context.Context) {
	c.State.Values = &inbound.Values{Context: c.connection(), Of: context.WithoutCancel(ctx)}
}

// SentType returns the type as the client sent it, registered or not, of at most
// 128 bytes; it is empty if the frame has none. The client chooses this text: do not use it as
// a key or a label. It allocates.
func (c *Context) SentType() string {
	return string(c.State.SentType[:min(len(c.State.SentType), envelope.MaxTypeLength)])
}

// Meta decodes a member of the frame's meta into v, a pointer. It returns false, and does not
// change v, if the client has sent none or null, and INVALID_ARGUMENT if the value does not fit v.
// Only an application's own members can be read, see router.Meta. The client chooses them: do not
// use them as a key or a label.
func (c *Context) Meta(name string, v any) (bool, error) {
	if c.State.Frame == nil {
		return false, nil
	}
	return c.State.Frame.DecodeMember(name, v)
}

// Hold delays the frame. The connection is not read until then, so that TCP slows the client
// down and nothing is buffered; queued output is sent. Hold returns nil after d, and the error
// of [Context.Context] if this side ends the connection before. It does not see that the client
// has disconnected. d ≤ 0 is no delay.
func (c *Context) Hold(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if h, ok := c.State.Ctx.(inbound.Holder); ok {
		h.BeforeHold()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	ctx := c.connection()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reject returns e as an error, without an allocation: the error is a part of the
// Context and is valid until the connection's next frame. If the route drops what exceeds a limit
// (router.RouteOptions.Silent), Silent is set.
func (c *Context) Reject(e errors.LimitExceeded) error {
	c.rejected = e
	c.rejected.Silent = e.Silent || c.State.Silent
	return &c.rejected
}
