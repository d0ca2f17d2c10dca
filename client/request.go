package client

import (
	"context"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
)

// Send sends an event, and returns when it was written to the connection; while there is none, it waits for
// one. Events of one goroutine arrive in the order of the calls. Nothing says whether an event was handled: send
// a request if that matters. An event that the server refuses is reported to Options.OnError.
//
// The error is that of ctx if it ended before, and then the event was not written; or see
// [ErrUnknownOutcome], [ErrQueueFull], [ErrClosed] and State.Err. With a nil payload, none is sent.
func Send(ctx context.Context, c *Client, typ string, payload any, opts ...MessageOptions) error {
	m, err := newMessage(ctx, typ, payload, given.Must("client", "a message", opts))
	if err == nil {
		_, err = c.do(m)
	}
	return err
}

// Request sends a request and waits for the reply:
//
//	joined, err := client.Request[Joined](ctx, c, "room.join", Join{Room: "lobby"})
//
// While there is no connection, the request waits for one. Once it is written, it is not written again
// unless the options say so. The server gets the time that ctx leaves. When ctx ends, the request is aborted.
//
// The error of a request that the server refused is an *errors.Error of this module, with its code, its
// message, whether and when it may be tried again, and details as a jsontext.Value. All others, such as
// [ErrUnknownOutcome], are too, but for a payload that does not encode or a reply that does not decode.
func Request[R any](ctx context.Context, c *Client, typ string, payload any, opts ...MessageOptions) (R, error) {
	return Follow[struct{}, R](ctx, c, typ, payload, opts...).Reply()
}

// Call is a request that has been sent. [Follow] makes it.
type Call[P, R any] struct {
	c        *Client
	m        *message
	err      error // of sending
	progress *progress
}

// Follow is [Request] for a request with progress of type P. It does not wait:
//
//	call := client.Follow[Percent, Report](ctx, c, "report.get", q)
//	for percent, err := range call.Progress() {
//		…
//	}
//	report, err := call.Reply()
func Follow[P, R any](ctx context.Context, c *Client, typ string, payload any, opts ...MessageOptions) *Call[P, R] {
	call := &Call[P, R]{c: c, progress: new(progress)}
	if call.m, call.err = newMessage(ctx, typ, payload, given.Must("client", "a message", opts)); call.err != nil {
		return call
	}
	call.m.request = true
	if _, none := any(*new(P)).(struct{}); !none {
		call.progress.arrived = make(chan struct{}, 1)
		call.m.follow = call.progress
	}
	call.err = c.enqueue(call.m)
	return call
}

// Reply waits for the reply.
func (call *Call[P, R]) Reply() (reply R, err error) {
	if call.err != nil {
		return reply, call.err
	}
	raw, err := call.c.outcome(call.m)
	if err != nil {
		return reply, err
	}
	return decode[R](call.m.typ, raw)
}

// Progress returns the progress until the request is answered, or its context has ended. It may be called
// once. An error says that progress did not decode, or that some was dropped because more than 1,024, or more than
// 1 MiB, waited here; what follows is received nevertheless.
func (call *Call[P, R]) Progress() iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		for call.err == nil {
			raw, dropped := call.progress.take()
			if dropped && !yield(*new(P), errProgressDropped) {
				return
			}
			for _, payload := range raw {
				if !yield(decode[P](call.m.typ, payload)) {
					return
				}
			}
			if len(raw) > 0 {
				continue
			}
			select {
			case <-call.progress.arrived:
			case <-call.m.done:
				if !call.progress.some() {
					return
				}
			}
		}
	}
}

var errProgressDropped = errors.ResourceExhausted.New("progress was dropped")

// maxProgress is how much progress of a request waits for Call.Progress, and maxProgressBytes its size. One that is
// larger waits alone.
const (
	maxProgress      = 1024
	maxProgressBytes = 1 << 20
)

type progress struct {
	mu      sync.Mutex
	list    []jsontext.Value
	bytes   int
	dropped bool
	arrived chan struct{} // with a buffer of one
}

func (p *progress) add(payload jsontext.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += len(payload)
	for len(p.list) >= maxProgress || len(p.list) > 0 && p.bytes > maxProgressBytes {
		p.bytes -= len(p.list[0])
		p.list[0] = nil
		p.list, p.dropped = p.list[1:], true
	}
	p.list = append(p.list, payload)
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

func (p *progress) take() (list []jsontext.Value, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, dropped = p.list, p.dropped
	p.list, p.bytes, p.dropped = nil, 0, false
	return list, dropped
}

func (p *progress) some() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) > 0
}

func (c *Client) do(m *message) (jsontext.Value, error) {
	if err := c.enqueue(m); err != nil {
		return nil, err
	}
	return c.outcome(m)
}

// outcome waits for the outcome of a message that was queued.
func (c *Client) outcome(m *message) (jsontext.Value, error) {
	if m.handler == c {
		c.inbox.need(1)
		defer c.inbox.need(-1)
	}
	<-m.done // also when its context ends
	return m.reply, m.err
}
