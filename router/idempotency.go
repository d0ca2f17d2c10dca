package router

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/dedupe"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/metrics"
	"github.com/wskit/wskit/router/internal/turn"
)

// IdempotencyOptions say how messages with a meta.idempotencyKey are handled once. A key
// belongs to a user (tenant and user) and a message type, so the same message may be sent
// again on another connection, to another process. Without an identity it belongs to the
// connection alone, and the store bounds the keys of all such connections of one address together
// (IPv6 by its /64), as it bounds those of one user.
//
// The first message with a key is handled. The same message sent again gets the first one's
// answer, waiting for it if need be, and neither its handler nor the middleware around that
// runs. An answer is kept before it is sent. The outcome is what the handler returns, even
// where the client was answered earlier, because the request was aborted, took too long or
// lost its connection: a handler that must not stop half-way ignores its context. Errors that
// are retryable, CANCELLED, and rejections by a limit are not kept: then the message may be
// handled again, and requests that waited are answered ABORTED, which is retryable. Another
// payload under the same key is answered FAILED_PRECONDITION.
//
// When the process that handles a message is killed, its claim ends after Backend.ProcessTimeout, and the
// message is handled again when it is sent again. While it is handled, the lease is renewed;
// if that is not possible for as long as a lease, another process may begin to handle
// the message as well.
//
// An event with a key is handled once, too. It has no answer to wait for: while the first is
// handled, the same event is dropped.
type IdempotencyOptions struct {
	// Keep is how long an answer is kept.
	//
	// Default: 1 h.
	Keep time.Duration

	// MaxAnswer is the size in bytes of the largest answer that is kept, as JSON. In place of a larger
	// one, and of one for which Backend.Idempotency has no room, the message that is sent again gets
	// FAILED_PRECONDITION. Options.OnError gets each of these faults once a minute at most.
	//
	// Default: 16 KiB.
	MaxAnswer int

	// Timeout is how long a message waits for Backend.Idempotency, before and after its handler.
	//
	// Default: 1 s.
	Timeout time.Duration

	// FailOpen handles messages as if they had no key while Backend.Idempotency fails: one may be handled
	// twice.
	//
	// Default: they are answered UNAVAILABLE and are not handled.
	FailOpen bool
}

func (o IdempotencyOptions) withDefaults() (IdempotencyOptions, error) {
	o.Keep = cmp.Or(o.Keep, time.Hour)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 16<<10)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	if o.Keep < 0 || o.Timeout < 0 || o.MaxAnswer < 0 {
		return o, fmt.Errorf("router: Options.Idempotency holds a negative value; all are positive, and 0 stands for the default")
	}
	return o, nil
}

var (
	errOtherPayload = errors.FailedPrecondition.New("meta.idempotencyKey was used with another payload")
	errAnswerLost   = errors.FailedPrecondition.New("the message was handled before; its answer was not kept")
	errManyKeys     = errors.ResourceExhausted.New("too many idempotency keys are kept")
	errNotAnswered  = errors.Aborted.New("the same message was handled at the same time, and has no answer that is kept; send it again")
)

// idempotent reports whether a frame has a key that counts.
func (c *Conn) idempotent(f *incoming) bool {
	return f.env.IdempotencyKey != nil && !f.route.protocol
}

// newExecution is for a frame with a key. It must be called while the frame is in its buffer.
func (c *Conn) newExecution(f *incoming) *dedupe.Execution {
	key, _ := jsontext.AppendUnquote(nil, f.env.IdempotencyKey) // it has been read as a string
	var subject string
	id := c.identity.Load()
	if id.Authenticated() {
		subject = dedupe.Digest("user", []byte(id.Tenant), []byte(id.User))
	} else { // the store bounds what it keeps of a subject, and an address may have many connections
		address, _ := ingress.GroupIP(c.ip).MarshalBinary()
		subject = dedupe.Digest("address", address)
	}
	claim := dedupe.Claim(subject, f.route.typ, key, f.env.Payload)
	if !id.Authenticated() {
		claim.Key = dedupe.Digest("connection", []byte(c.peer.ID), []byte(claim.Key))
	}
	return dedupe.New(&c.router.dedupe, claim)
}

// beginExecution reports whether a message with an idempotency key is to be handled. Otherwise it has been answered, or
// another goroutine waits for the answer.
func (c *Context) beginExecution() bool {
	state, answer, err := c.execution.Begin()
	switch {
	case state == idempotency.Claimed && err == nil:
		return true
	case state == idempotency.Running && err == nil:
		if c.route.request {
			c.waitForAnswer()
		}
		return false
	case err != nil && !errors.Is(err, idempotency.ErrFull):
		go c.execution.Release() // it may have been claimed
		if c.conn.router.opts.Idempotency.FailOpen {
			return true
		}
	}
	c.settle(c.execution, state, answer, err)
	return false
}

// settle answers a message that is not handled.
func (c *Context) settle(e *dedupe.Execution, state idempotency.State, answer []byte, err error) {
	switch {
	case errors.Is(err, idempotency.ErrFull):
		c.finish(errManyKeys)
	case err != nil:
		c.finish(errors.Unavailable.Wrap(err, "it is not known whether the message was handled before"))
	case state == idempotency.Answered:
		c.repeat(answer)
	case state == idempotency.Mismatch:
		c.finish(errOtherPayload)
	case state == idempotency.Claimed: // by one that waited, out of its turn
		e.Release()
		c.finish(errNotAnswered)
	default:
		c.finish(fmt.Errorf("router: the idempotency store returned the state %d", state))
	}
}

// waitForAnswer puts another message in the place of a request: that waits for the answer of the execution that handles
// the message, and holds back no other message.
func (c *Context) waitForAnswer() {
	if !c.claim(metrics.None) {
		return
	}
	e, w := c.execution, new(Context)
	w.reset(c.conn, c.route, &envelope.Envelope{CorrelationID: c.id}, c.receivedAt)
	w.timeout = c.timeout
	w.lent = c.route.codec.get()
	w.task = turn.Task[Context]{Message: w, Size: int32(len(w.id)), Request: true, Concurrent: true}
	c.conn.turn.Add(&w.task)
	go func() {
		if state, answer, err, ok := e.Await(w.Done()); ok { // or it is answered, or without a client
			w.settle(e, state, answer, err)
		}
		w.conn.stream.Out.Flush()
		w.conn.finished(w)
	}()
}

// endExecution keeps what the handler has returned, before it is sent.
func (c *Context) endExecution(err error) {
	e := c.execution
	if !e.End() {
		return
	}
	answer := c.kept(err)
	if answer == nil {
		e.Release()
		return
	}
	unkept := &c.conn.router.unkept
	if most := c.conn.router.opts.Idempotency.MaxAnswer; len(answer)-1 > most {
		c.unkept(&unkept.large, fmt.Errorf("router: the answer has %d bytes, and Options.Idempotency.MaxAnswer is %d: it is not kept", len(answer)-1, most))
		answer = []byte{keptNothing}
	}
	err = e.KeepAnswer(answer)
	if errors.Is(err, idempotency.ErrFull) && answer[0] != keptNothing {
		c.unkept(&unkept.full, errors.New("router: the idempotency store has no room for the answer: it is not kept"))
		answer = []byte{keptNothing}
		err = e.KeepAnswer(answer)
	}
	switch {
	case errors.Is(err, idempotency.ErrLost):
		c.unkept(&unkept.lost, errors.New("router: the lease of an idempotency key was over before its handler returned, and the message was handled again"))
	case err != nil: // the client gets its answer all the same
		e.Insist(answer, []byte{keptNothing})
	}
}

// unkept are the faults of answers that are not kept. A client can cause any number of them.
type unkept struct{ large, full, lost seldom }

// seldom is something that is said once a minute. It has the earliest time, in ns after the epoch.
type seldom struct{ next atomic.Int64 }

func (s *seldom) due(now time.Duration) bool {
	next := s.next.Load()
	return int64(now) >= next && s.next.CompareAndSwap(next, int64(now+time.Minute))
}

// unkept reports a fault once a minute, and counts it each time.
func (c *Context) unkept(kind *seldom, err error) {
	r := c.conn.router
	if !kind.due(r.now()) {
		r.stats.faults.Add(1)
		return
	}
	r.fault(Fault{Conn: c.conn, Type: c.route.typ, Err: err})
}

// An answer is kept as one of these and what follows the correlation id in the answer: of a
// reply, from its own members of meta or the end of its meta on, and of an error, from its code on.
const (
	keptReply   = 'r'
	keptError   = 'e'
	keptNothing = 'x'
)

// kept is what is kept of an outcome, nil for nothing.
func (c *Context) kept(err error) []byte {
	if err == nil && c.route.request && !c.called {
		err = errSwallowed
	}
	if err == nil {
		b := []byte{keptReply}
		if c.route.request {
			b = append(b, c.out.Bytes()[c.head-1:]...)
		}
		return b
	}
	e := errors.From(err)
	if rejection(err) != nil || e.Retryable() || e.Code == errors.Cancelled {
		return nil
	}
	b := frame.New()
	defer b.Free()
	from := b.Len()
	c.conn.appendFailure(b, c.route.typ, e)
	return append([]byte{keptError}, b.Bytes()[from:]...)
}

// repeat answers with what was kept.
func (c *Context) repeat(answer []byte) {
	b := frame.New()
	defer b.Free()
	from := b.Len()
	switch {
	case string(answer) == string(keptNothing):
		c.finish(errAnswerLost)
		return
	case len(answer) > 0 && answer[0] == keptReply:
		if !c.route.request {
			return
		}
		c.beginReply()
		b.Write(c.out.Bytes()[from : c.head-1])
		b.Write(answer[1:])
		b.WriteByte('}')
	case len(answer) > 0 && answer[0] == keptError:
		b.Failure(frame.Failed{Type: c.route.typ, ID: c.id})
		b.Write(answer[1:])
	}
	if frame := jsontext.Value(b.Bytes()[from:]); !frame.IsValid() { // a store is not to be trusted that far
		c.finish(fmt.Errorf("router: the idempotency store returned %d bytes that are no answer", len(answer)))
		return
	}
	if !c.route.request || c.claim(metrics.OK) {
		c.conn.answer(b.Bytes())
	}
}
