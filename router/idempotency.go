package router

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/metrics"
	"github.com/wskit/wskit/router/internal/turn"
)

// IdempotencyOptions say how messages with a meta.idempotencyKey are handled once. A key
// belongs to a user (tenant and user) and a message type, so the same message may be sent
// again on another connection, to another process. Without an identity it belongs to the
// connection alone.
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
// When the process that handles a message is killed, its claim ends with the lease, and the
// message is handled again when it is sent again. While it is handled, the lease is renewed;
// if that is not possible for as long as a lease, another process may begin to handle
// the message as well.
//
// An event with a key is handled once, too. It has no answer to wait for: while the first is
// handled, the same event is dropped.
type IdempotencyOptions struct {
	// Store keeps the answers: memory.NewIdempotency for one process,
	// redis.NewIdempotency for several. The Router does not close it.
	//
	// Default: none; meta.idempotencyKey is ignored.
	Store idempotency.Store

	// Keep is how long an answer is kept.
	//
	// Default: 1 h.
	Keep time.Duration

	// Lease is how long a message counts as being handled after its process was killed. At
	// least 1 s.
	//
	// Default: 10 s.
	Lease time.Duration

	// MaxAnswer is the size in bytes of the largest answer that is kept, as JSON. In place
	// of a larger one, the message that is sent again gets FAILED_PRECONDITION, and
	// Options.OnError the fault.
	//
	// Default: 16 KiB.
	MaxAnswer int

	// Timeout is how long a message waits for the Store, before and after its handler.
	//
	// Default: 1 s.
	Timeout time.Duration

	// FailOpen handles messages as if they had no key while the Store fails: one may be handled
	// twice.
	//
	// Default: they are answered UNAVAILABLE and are not handled.
	FailOpen bool
}

func (o IdempotencyOptions) withDefaults() (IdempotencyOptions, error) {
	o.Keep = cmp.Or(o.Keep, time.Hour)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 16<<10)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	switch {
	case o.Keep < 0 || o.Timeout < 0 || o.MaxAnswer < 0:
		return o, fmt.Errorf("router: Options.Idempotency holds a negative value; all are positive, and 0 stands for the default")
	case o.Lease < time.Second:
		return o, fmt.Errorf("router: Options.Idempotency.Lease is %v; it must be at least 1s (0 for 10s)", o.Lease)
	}
	return o, nil
}

var (
	errOtherPayload = errors.FailedPrecondition.New("meta.idempotencyKey was used with another payload")
	errAnswerLost   = errors.FailedPrecondition.New("the message was handled before; its answer was too large to be kept")
	errManyKeys     = errors.ResourceExhausted.New("too many idempotency keys are kept")
	errNotAnswered  = errors.Aborted.New("the same message was handled at the same time, and has no answer that is kept; send it again")
)

// execution is one attempt to handle a message that has an idempotency key.
type execution struct {
	r       *Router
	claim   idempotency.Claim
	claimed bool // it is the one that handles the message

	mu       sync.Mutex // see locks.go
	ended    bool
	timer    *time.Timer   // renews the claim
	renewing chan struct{} // closed when a renewal under way has ended
}

// idempotent reports whether a frame has a key that counts.
func (c *Conn) idempotent(f *incoming) bool {
	return f.env.IdempotencyKey != nil && !f.route.protocol && c.router.opts.Idempotency.Store != nil
}

// newExecution is for a frame with a key. It must be called while the frame is in its buffer.
func (c *Conn) newExecution(f *incoming) *execution {
	e := &execution{r: c.router}
	if id := c.identity.Load(); id.Authenticated() {
		e.claim.Subject = digestOf("user", []byte(id.Tenant), []byte(id.User))
	} else {
		e.claim.Subject = digestOf("connection", []byte(c.peer.ID))
	}
	key, _ := jsontext.AppendUnquote(nil, f.env.IdempotencyKey) // it has been read as a string
	e.claim.Key = digestOf("key", []byte(f.route.typ), key)
	payload := jsontext.Value(append([]byte(nil), f.env.Payload...))
	if string(payload) == "null" {
		payload = nil
	}
	// White space, escapes and the order of members do not make another payload. (What does not
	// format is hashed as it is.)
	_ = payload.Format(jsontext.ReorderRawObjects(true))
	e.claim.Digest = digestOf("payload", payload)
	e.claim.Execution = rand.Text()
	return e
}

// digestOf stands for several texts; different ones never make the same.
func digestOf(kind string, parts ...[]byte) string {
	h := sha256.New()
	_, _ = h.Write([]byte(kind))
	for _, p := range parts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		_, _ = h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// within is the time for one call of the store. It is not the message's: what becomes of a
// message is kept, whatever has become of its client.
func (e *execution) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), e.r.opts.Idempotency.Timeout)
}

func (e *execution) ask() (idempotency.State, []byte, error) {
	ctx, cancel := e.within()
	defer cancel()
	return e.r.opts.Idempotency.Store.Begin(ctx, e.claim, e.r.opts.Idempotency.Lease)
}

func (e *execution) release() {
	ctx, cancel := e.within()
	defer cancel()
	_ = e.r.opts.Idempotency.Store.Release(ctx, e.claim) // or the lease ends
}

// begin reports whether the message is to be handled. Otherwise it has been answered, or
// another goroutine waits for the answer.
func (e *execution) begin(c *Context) bool {
	state, answer, err := e.ask()
	switch {
	case state == idempotency.Claimed && err == nil:
		e.claimed = true
		e.renewLater()
		return true
	case state == idempotency.Running && err == nil:
		if c.route.request {
			e.wait(c)
		}
		return false
	case err != nil && !errors.Is(err, idempotency.ErrFull):
		go e.release() // it may have been claimed
		if e.r.opts.Idempotency.FailOpen {
			return true
		}
	}
	e.settle(c, state, answer, err)
	return false
}

// settle answers a message that is not handled.
func (e *execution) settle(c *Context, state idempotency.State, answer []byte, err error) {
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
		e.release()
		c.finish(errNotAnswered)
	default:
		c.finish(fmt.Errorf("router: the idempotency store returned the state %d", state))
	}
}

// Waiting for another execution begins with short pauses. Each ends with a call of the store.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// wait has another message stand in for a request: it waits for the answer of the execution
// that handles the message, and holds back no other message meanwhile.
func (e *execution) wait(c *Context) {
	if !c.claim(metrics.None) {
		return
	}
	w := new(Context)
	w.reset(c.conn, c.route, &envelope.Envelope{CorrelationID: c.id}, c.receivedAt)
	w.timeout = c.timeout
	w.lent = c.route.codec.get()
	w.task = turn.Task[Context]{Message: w, Size: int32(len(w.id)), Request: true, Concurrent: true}
	c.conn.turn.Add(&w.task)
	go func() {
		e.await(w)
		w.conn.stream.Out.Flush()
		w.conn.finished(w)
	}()
}

func (e *execution) await(w *Context) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		timer := time.NewTimer(pause/2 + mathrand.N(pause/2))
		select {
		case <-timer.C:
		case <-w.Done(): // answered, or without a client
			timer.Stop()
			return
		}
		if state, answer, err := e.ask(); err != nil || state != idempotency.Running {
			e.settle(w, state, answer, err)
			return
		}
	}
}

// renewLater keeps the claim for as long as the handler runs.
func (e *execution) renewLater() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(e.r.opts.Idempotency.Lease/3, e.renew)
}

func (e *execution) renew() {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return
	}
	done := make(chan struct{})
	e.renewing = done
	e.mu.Unlock()

	ctx, cancel := e.within()
	err := e.r.opts.Idempotency.Store.Renew(ctx, e.claim, e.r.opts.Idempotency.Lease)
	cancel()

	e.mu.Lock()
	defer e.mu.Unlock()
	close(done)
	e.renewing = nil
	if !e.ended && !errors.Is(err, idempotency.ErrLost) {
		e.timer.Reset(e.r.opts.Idempotency.Lease / 3)
	}
}

// end keeps what the handler has returned, before it is sent.
func (e *execution) end(c *Context, err error) {
	if !e.claimed {
		return
	}
	e.claimed = false
	e.mu.Lock()
	e.ended = true
	e.timer.Stop()
	renewing := e.renewing
	e.mu.Unlock()
	if renewing != nil { // it would claim again what has been released
		<-renewing
	}
	answer := c.kept(err)
	if answer == nil {
		e.release()
		return
	}
	if len(answer)-1 > e.r.opts.Idempotency.MaxAnswer {
		e.fault(c, fmt.Errorf("router: the answer has %d bytes, and Options.Idempotency.MaxAnswer is %d: it is not kept", len(answer)-1, e.r.opts.Idempotency.MaxAnswer))
		answer = []byte{keptNothing}
	}
	err = e.finish(answer)
	if errors.Is(err, idempotency.ErrFull) && answer[0] != keptNothing {
		e.fault(c, errors.New("router: the idempotency store has no room for the answer: it is not kept"))
		answer = []byte{keptNothing}
		err = e.finish(answer)
	}
	switch {
	case errors.Is(err, idempotency.ErrLost):
		e.fault(c, errors.New("router: the lease of an idempotency key was over before its handler returned, and the message was handled again"))
	case err != nil: // the client gets its answer all the same
		e.r.handlers.Add(1)
		go e.insist(answer)
	}
}

func (e *execution) fault(c *Context, err error) {
	e.r.fault(Fault{Conn: c.conn, Type: c.route.typ, Err: err})
}

func (e *execution) finish(answer []byte) error {
	ctx, cancel := e.within()
	defer cancel()
	return e.r.opts.Idempotency.Store.Finish(ctx, e.claim, answer, e.r.opts.Idempotency.Keep)
}

// insist keeps an answer that a store has failed to take, for as long as the lease holds off
// another execution.
func (e *execution) insist(answer []byte) {
	defer e.r.handlers.Add(-1)
	for until := time.Now().Add(e.r.opts.Idempotency.Lease); time.Now().Before(until); {
		time.Sleep(longestPause)
		if err := e.finish(answer); err == nil || errors.Is(err, idempotency.ErrLost) {
			return
		}
	}
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
