package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// link is one connection. Three goroutines serve it: one reads, one writes, one pings; with Options.Token, a fourth
// renews the identity.
type link struct {
	c      *Client
	ws     *websocket.Conn
	ctx    context.Context // ends with the connection; cancelling it closes the connection
	cancel context.CancelFunc
	wake   chan struct{} // with a buffer of one: there may be something to write

	expiring chan time.Time // with a buffer of one: when the identity expires, as the server has said last
	received atomic.Uint64  // frames
	blocked  atomic.Bool    // it is not read, because the inbox is full

	failing sync.Once
	failed  error // what a goroutine other than the reader has found

	// Guarded by Client.mu.
	control   [][]byte                // frames of the protocol, which do not wait behind messages
	asked     map[string]func(*frame) // called by the reader
	questions map[string]context.CancelFunc
	resuming  bool // messages wait: the topics have not been resumed yet
}

func newLink(c *Client, ws *websocket.Conn) *link {
	l := &link{
		c: c, ws: ws, wake: make(chan struct{}, 1), expiring: make(chan time.Time, 1),
		asked: make(map[string]func(*frame)), questions: make(map[string]context.CancelFunc),
	}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	return l
}

// serve returns when the connection has ended.
func (l *link) serve() ending {
	var others sync.WaitGroup
	others.Go(l.write)
	others.Go(l.ping)
	if l.c.opts.Token != nil {
		l.c.running.Go(l.renewals) // Token may take its time, and the next attempt does not wait for it
	}
	err := l.read()
	l.cancel()
	_ = l.ws.CloseNow()
	others.Wait()
	if _, ok := errors.AsType[websocket.CloseError](err); !ok && l.failed != nil {
		err = l.failed
	}
	return broken(err)
}

// bye closes the connection, as long as ctx allows.
func (l *link) bye(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.cancel)
	defer stop()
	_ = l.ws.Close(websocket.StatusNormalClosure, "")
}

// fail ends the connection. What the server has sent before, such as a close frame, may still be read.
func (l *link) fail(err error, grace time.Duration) {
	l.failing.Do(func() {
		l.failed = err
		time.AfterFunc(grace, l.cancel)
	})
}

func (l *link) read() error {
	for {
		kind, data, tooLarge, err := l.readMessage()
		if err != nil {
			return err
		}
		l.received.Add(1)
		if tooLarge {
			err = l.oversized(data)
		} else {
			err = l.receive(kind, data)
		}
		if err != nil {
			return err
		}
	}
}

func (l *link) write() {
	for {
		b, m, wait := l.c.next(l)
		if b == nil {
			if !l.idle(wait) {
				return
			}
			continue
		}
		if err := l.ws.Write(l.ctx, websocket.MessageText, b); err != nil { // pings bound its time
			l.fail(err, time.Second)
			l.c.notWritten(m, err)
			return
		}
		l.c.written(m)
	}
}

// idle waits until there may be something to write. It returns false when the connection has ended.
func (l *link) idle(wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-l.wake:
	case <-due:
	case <-l.ctx.Done():
		return false
	}
	return true
}

// wake has the writer look for something to write. c.mu is held.
func (c *Client) wake() {
	if c.link == nil {
		return
	}
	select {
	case c.link.wake <- struct{}{}:
	default:
	}
}

var errDead = errors.New("the server does not answer pings")

// ping finds out when the connection is dead.
func (l *link) ping() {
	if l.c.opts.PingInterval < 0 {
		return
	}
	for sleep(l.ctx, l.c.opts.PingInterval) {
		received := l.received.Load()
		ctx, cancel := context.WithTimeout(l.ctx, l.c.opts.PongTimeout)
		err := l.ws.Ping(ctx)
		cancel()
		if err != nil && received == l.received.Load() && !l.blocked.Load() {
			l.fail(errDead, 0)
			return
		}
	}
}

// maxControl is how many frames of the protocol, such as answers, may wait to be written.
const maxControl = 1024

var errUnread = errors.New("the server does not read the answers to what it sends")

// push writes a frame of the protocol before all messages. c.mu is held.
func (l *link) push(o outgoing) {
	if len(l.control) >= maxControl {
		l.fail(errUnread, 0)
		return
	}
	l.control = append(l.control, o.encode())
	l.c.wake()
}

// ask sends a request of the protocol and waits until it was answered. The reader calls then before it takes
// the next frame, with Client.mu held.
func (l *link) ask(typ string, payload any, then func(payload jsontext.Value, err error)) error {
	b, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	l.c.mu.Lock()
	id := l.c.newID()
	l.asked[id] = func(f *frame) {
		defer close(done)
		if f.Type == typeRPCError {
			_, err = readFailure(f.Payload)
		}
		then(f.Payload, err)
	}
	l.push(outgoing{Type: typ, Meta: outgoingMeta{CorrelationID: id}, Payload: b})
	l.c.mu.Unlock()
	select {
	case <-done:
	case <-l.ctx.Done():
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.asked[id] != nil {
		delete(l.asked, id) // then is not called any more
		return l.ctx.Err()
	}
	return err
}
