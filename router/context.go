package router

import (
	"bytes"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/turn"
)

// Context is a message being handled. It is a context.Context that is cancelled
// when the connection ends, when the client aborts the request and when its time
// is over, so it can be handed to a database or an HTTP client as it is.
//
// A handler that takes no notice of its being cancelled goes on, and the
// connection's next messages wait for it, although the client has had its answer. Those
// that still wait when the connection ends are dropped. To a client that closes, though,
// this happens after the events that it sent before have been handled, or a second
// later; only its requests are cancelled at once.
//
// It belongs to the handler and is used again after the handler has returned.
// What goes on after that takes the [Conn], which may be kept. Until then it may
// be used by several goroutines.
type Context struct {
	// Identity is what Authenticate returned. It must not be changed. An ingress.Key
	// stores values with it.
	Identity *ingress.Identity

	conn       *Conn
	route      *route
	lent       any           // the message, of the route's codec
	id         []byte        // correlation id, as JSON; nil: none
	receivedAt time.Time     // also where the timeout counts from
	timeout    time.Duration // 0: none
	out        bytes.Buffer  // the reply, of which the first head bytes are not payload
	head       int
	idBuf      [48]byte
	called     bool // the typed handler has been called
	task       turn.Task[Context]

	mu       sync.Mutex // see locks.go
	answered bool       // the one terminal answer has been given
	tracked  bool       // the conn's turn finds it
	done     chan struct{}
	err      error
	timer    *time.Timer
}

// Type is the message's type.
func (c *Context) Type() string { return c.route.typ }

// Message is the decoded message: a pointer to the type that the handler takes.
// It is for middleware, which may change what it points to but not keep it; a
// handler gets the message as its argument.
func (c *Context) Message() any {
	if m, ok := c.route.codec.(interface{ message(any) any }); ok {
		return m.message(c.lent)
	}
	return nil
}

// Conn is the connection the message came from. It may be kept.
func (c *Context) Conn() *Conn { return c.conn }

// IP is the client's address.
func (c *Context) IP() netip.Addr { return c.conn.ip }

// ReceivedAt is when the message came, by the server's clock. Its deadline counts
// from there.
func (c *Context) ReceivedAt() time.Time { return c.receivedAt }

// CorrelationID is the id that the client gave the message, or empty.
func (c *Context) CorrelationID() string {
	if c.id == nil {
		return ""
	}
	var s string
	_ = json.Unmarshal(c.id, &s) // it has been read as a string
	return s
}

// Send sends an event to this connection. See [Conn.Send]. It may leave together
// with what follows, within milliseconds.
func (c *Context) Send(typ string, payload any) error {
	if err := c.conn.enqueueEvent(typ, payload); err != nil {
		return err
	}
	c.conn.flushUnlessBatched()
	return nil
}

// Publish sends an event to all subscribers of a topic, this connection too if it
// is one; it need not be. payload is encoded as in [Conn.Send]. At most one
// PublishOptions may be given.
//
// An error means that not all subscribers will get it: the topic's name has not 1
// to 256 bytes (INVALID_ARGUMENT), the type is not a type name or is reserved,
// the payload does not encode, or the broker has failed (UNAVAILABLE). Without an
// error it has been handed on, which does not mean that every client has it.
func (c *Context) Publish(topic, typ string, payload any, opts ...PublishOptions) error {
	batched := !c.task.Concurrent
	err := c.conn.router.publish(c, c.conn, batched, topic, typ, payload, opts)
	if batched && !c.conn.turn.Batching() {
		c.conn.flushDeferred() // detached meanwhile: nobody else will
	}
	return err
}

// Subscribe makes the connection a member of a topic: it gets what is published
// there from now on, until it unsubscribes or ends. A topic is any name of 1 to
// 256 bytes; it begins with its first member and ends with its last. Subscribing
// again is harmless.
//
// The first member of a topic in this process waits for the broker, and so do those
// that subscribe meanwhile: until the context is cancelled, the connection ends or
// unsubscribes.
//
// The error is INVALID_ARGUMENT for the name, RESOURCE_EXHAUSTED over
// Limits.MaxTopics, and UNAVAILABLE when the broker fails, the context is cancelled, or
// the connection has ended or unsubscribed meanwhile ([ErrClosed]).
func (c *Context) Subscribe(topic string) error { return c.conn.subscribe(c, topic) }

// Join makes the connection a member of a topic, as Subscribe does, and one that is
// seen: [Router.Presence] has it, in all processes that share Options.Presence, with
// what others are to know of it, which is encoded as in [Conn.Send]. It is seen
// until it unsubscribes or ends. Joining again replaces what is known of it.
//
// The errors are those of Subscribe, also UNAVAILABLE when the presence fails, and
// INVALID_ARGUMENT for more than pubsub.MaxMember bytes. After an error the
// connection is not seen, and a member only if it was one before.
func (c *Context) Join(topic string, known any) error { return c.conn.join(c, topic, known) }

// Unsubscribe ends the connection's membership in a topic. See [Conn.Unsubscribe].
func (c *Context) Unsubscribe(topic string) { c.conn.Unsubscribe(topic) }

// Progress tells the client of a request how far it is. It may be called any
// number of times before the handler returns; the client gets what it was called
// with before it gets the answer. For an event, and after the request has been
// answered (aborted, timed out), it does nothing. It fails as [Conn.Send] does.
func (c *Context) Progress(data any) error {
	if !c.route.request || c.hasAnswer() {
		return nil
	}
	b := newOutgoing()
	defer b.free()
	b.WriteString(`{"type":"` + typeProgress + `","meta":{"correlationId":`)
	b.Write(c.id)
	b.WriteString(`},"data":`)
	from := b.Len()
	if err := json.MarshalWrite(&b.Buffer, data); err != nil {
		return err
	}
	encoded := b.Bytes()[from:]
	b.Write(payloadKey)
	b.Write(encoded)
	b.WriteByte('}')
	// The lock orders it before an answer by another goroutine.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return nil
	}
	if err := c.conn.enqueue(b); err != nil {
		return err
	}
	c.conn.flushUnlessBatched()
	return nil
}

func (c *Context) hasAnswer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	if c.timeout <= 0 {
		return time.Time{}, false
	}
	return c.receivedAt.Add(c.timeout), true
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	if c.arm() {
		c.conn.turn.Track(&c.task)
		if c.conn.ended() {
			c.cancel(context.Canceled)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context. As it has to, it returns an error if and only if Done is
// closed. A context that has not been asked for Done has no timer: then Err finds out
// whether the time is over, and does what the timer would.
func (c *Context) Err() error {
	if err := c.cause(); err != nil {
		return err
	}
	if c.conn.ended() {
		c.cancel(context.Canceled)
	} else if at, ok := c.Deadline(); ok && !time.Now().Before(at) {
		c.expire()
	}
	return c.cause()
}

// cause is why the context is cancelled, or nil.
func (c *Context) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context. It holds nothing: see ingress.NewKey.
func (c *Context) Value(any) any { return nil }

func (c *Context) cancel(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelLocked(err)
}

func (c *Context) cancelLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// arm makes sure that the context is cancelled when its time is over. It reports false if
// that has been seen to. A context that is handled inline and never asked for Done is not
// armed: it is over sooner than it would matter.
func (c *Context) arm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked || c.err != nil {
		return false
	}
	c.tracked = true
	if at, ok := c.Deadline(); ok {
		c.timer = time.AfterFunc(time.Until(at), c.expire)
	}
	return true
}

// opened is called when the message becomes open, with the connection's turn locked.
func (c *Context) opened() {
	c.conn.router.handlers.add(1)
	c.arm()
	if c.conn.ended() {
		c.cancel(context.Canceled)
	}
}

// reset prepares the Context for a message. The id is copied: it points into a
// buffer that is read into again.
func (c *Context) reset(conn *Conn, rt *route, env *envelope.Envelope, receivedAt time.Time) {
	c.Identity = &conn.identity
	c.conn, c.route, c.receivedAt = conn, rt, receivedAt
	c.task = turn.Task[Context]{
		Message: c, Size: len(env.Payload) + len(env.CorrelationID),
		Request: rt.request, Concurrent: rt.opts.Concurrent,
	}
	c.id = nil
	if env.CorrelationID != nil {
		c.id = append(c.idBuf[:0], env.CorrelationID...)
	}
	c.timeout = timeoutOf(rt, env.TimeoutMs, conn.router.opts.RequestTimeout)
	c.answered, c.called = false, false
	c.out.Reset()
	if rt.request {
		c.out.Write(headerRoom[:])
		c.out.Write(rt.replyHead)
		c.out.Write(c.id)
		c.out.WriteByte('}')
	}
	c.head = c.out.Len()
}

func timeoutOf(rt *route, clientMs int64, byDefault time.Duration) time.Duration {
	var t time.Duration
	if rt.request {
		t = byDefault
	}
	if rt.opts.Timeout != 0 {
		t = rt.opts.Timeout
	}
	t = max(t, 0)
	const maxMs = int64(24 * time.Hour / time.Millisecond)
	if clientMs > 0 && rt.request {
		if asked := time.Duration(min(clientMs, maxMs)) * time.Millisecond; t == 0 || asked < t {
			t = asked
		}
	}
	return t
}

// release makes the Context ready for another message, unless somebody has got
// hold of its Done channel: then it is cancelled, as every context is when its
// function returns, and left to the collector.
func (c *Context) release() (reusable bool) {
	c.route.codec.put(c.lent)
	c.lent = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked || c.done != nil || c.err != nil {
		c.cancelLocked(context.Canceled)
		return false
	}
	if c.out.Cap() > keptBuffer {
		c.out = bytes.Buffer{}
	}
	return true
}

var errAborted = errors.Cancelled.New("aborted by the client")

var _ context.Context = (*Context)(nil)
