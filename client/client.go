package client

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/given"
)

// Client is a connection to a server that is opened again when it ends. [Dial] makes it. Its methods, and the
// functions of this package that take one, may be called from any goroutine.
type Client struct {
	url  string
	opts Options

	ctx     context.Context // ends with the client
	cancel  context.CancelFunc
	running sync.WaitGroup
	inbox   *inbox
	drained chan struct{} // closed when all messages are settled, after closing was set

	mu          sync.Mutex // held for moments: not while something is waited for
	state       State
	changed     chan struct{} // closed and replaced when state changes
	link        *link         // nil: not connected
	slow        bool          // the last connection ended because a handler waited for an answer
	closing     bool          // no message is accepted any more
	queue       queue
	pausedUntil time.Time // by a limit of the server
	probe       *message  // was refused by a limit, and is written again; others wait until probeUntil
	probeUntil  time.Time
	open        map[string]*message
	unsettled   int
	seq, ids    uint64
	refusable   []*message // events that were written and that a limit may refuse
	handlers    map[string][]*handler
	answers     map[string]answerer
	topics      map[string]*topic
	keepers     []*keeper
	limits      *Limits // nil: they are not followed
	token       string  // of the last attempt
	denied      string  // the token that the server has refused
	same        int     // how often in a row Options.Token has returned that since
}

// Dial connects to a server, such as "wss://chat.example.com/ws". It returns when the connection is open. It
// tries until ctx ends, or until the server refuses with a code that no other attempt would change; then the
// error says why the last attempt has failed. ctx bounds Dial only.
//
// The error of an option that makes no sense says what to change.
func Dial(ctx context.Context, url string, options ...Options) (*Client, error) {
	o := given.Must("client", "Dial", options)
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		url: url, opts: o,
		inbox: newInbox(o.MaxQueued, o.MaxQueuedBytes), drained: make(chan struct{}),
		changed: make(chan struct{}), queue: queue{moved: make(chan struct{})}, open: make(map[string]*message),
		handlers: make(map[string][]*handler), answers: make(map[string]answerer), topics: make(map[string]*topic),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if o.Setup != nil {
		o.Setup(c)
	}
	c.running.Go(c.run)
	c.running.Go(func() {
		defer c.cancel()
		c.inbox.run(context.WithValue(c.ctx, handling{}, c))
	})
	s, err := c.Wait(ctx, func(s State) bool { return s.Phase == Connected || s.Phase == Closed || s.Connections > 0 })
	if s.Connections > 0 && s.Phase != Closed {
		return c, nil
	}
	c.stop(ErrClosed)
	c.cancel()
	c.running.Wait()
	if err != nil && s.Err != nil {
		return nil, fmt.Errorf("client: %w; the last attempt: %w", err, s.Err)
	} else if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return nil, s.Err
}

// Close ends the client. Messages that come later fail with [ErrClosed]. Those that are open,
// queued ones included, have the time of ctx to be sent and answered; then they fail, too. If ctx
// has ended already, they fail at once. The contexts of handlers are cancelled, and Close returns
// nil only when all handlers have returned: a handler may call it only in another goroutine.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	select {
	case <-c.drained:
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	if l := c.stop(ErrClosed); l != nil {
		l.bye(ctx)
	}
	c.cancel()
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop fails all messages, for a reason. No other connection is opened. It returns the one that is open.
func (c *Client) stop(why error) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Phase == Closed {
		return nil
	}
	c.setState(State{Phase: Closed, Err: why})
	for len(c.queue.list) > 0 {
		c.settle(c.queue.list[0], nil, why)
	}
	for _, m := range c.open {
		if m.at == written {
			c.settle(m, nil, unknownOutcome(why))
		} else {
			c.settle(m, nil, why)
		}
	}
	c.close()
	return c.link
}

// close has messages refused, and drained closed when none is open. c.mu is held.
func (c *Client) close() {
	c.closing = true
	select {
	case <-c.drained:
	default:
		if c.unsettled == 0 {
			close(c.drained)
		}
	}
}

// reason is why messages are refused. c.mu is held.
func (c *Client) reason() error {
	if c.state.Phase == Closed {
		return c.state.Err
	}
	return ErrClosed
}

// newID returns a correlation id. c.mu is held.
func (c *Client) newID() string {
	c.ids++
	return strconv.FormatUint(c.ids, 36)
}
