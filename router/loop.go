package router

import (
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/wire"
)

// A connection has two roles: one goroutine reads it, and one runs its handlers,
// in order. Nearly always both are played by one goroutine, which reads what has
// come, runs the handler of each message on the spot, and writes all the answers
// before it waits for more. That costs no hand-over at all.
//
// A handler that takes its time would then keep the connection from being read:
// its client could not abort the request, and nobody would see it go. So the
// watchdog, having found the same handler running twice in a row, detaches it:
// another goroutine takes over reading, and what it reads waits for its turn
// until the first goroutine is through with its handler and has handled it.
//
// Either goroutine handles messages in batches: what they send leaves when there
// are no more in hand. But nothing waits for a handler that takes its time: the
// watchdog sends what has been queued. The Conn's turn says where things stand:
// its lowest bits are one of these, the others count handlers.
//
// Before a message has its turn, the reader has it in hand: it goes through the
// ingress middleware, which may ask a distant store, and is decoded. Of that the
// Conn's frame tells, and what is ready to be sent does not wait for it either.
const (
	turnFree     = 0 // no handler runs
	turnInline   = 1 // the reader runs a handler
	turnWorking  = 2 // a goroutine that does not read runs handlers
	turnDetached = 3 // so it does, and the one that runs takes its time
	turnMask     = 3
	turnStep     = 4
)

// batched reports whether what is sent now leaves at the end of a batch.
func batched(turn uint64) bool {
	turn &= turnMask
	return turn == turnInline || turn == turnWorking
}

// taken reports whether handlers run that are not the reader's.
func taken(turn uint64) bool { return turn&turnMask >= turnWorking }

// A Conn's frame is odd while the reader has a frame in hand, and never twice the
// same for two of them.
const frameInHand = 1

// inHand reports whether the reader is busy with a frame.
func inHand(frame uint64) bool { return frame&frameInHand != 0 }

// beginFrame is the reader's, before it dispatches a frame.
func (c *Conn) beginFrame() {
	c.frame.Store((c.frame.Load() | frameInHand) + 2)
	c.router.watchdog.watch(c)
}

// endFrame is the reader's, when it may have to wait for its client.
func (c *Conn) endFrame() {
	if frame := c.frame.Load(); inHand(frame) {
		c.frame.Store(frame &^ frameInHand)
	}
}

// hotFor is how long a connection stays with the goroutine that handled its last
// message. Handlers make stacks grow, and a grown stack is held for as long as
// its goroutine lives; so a connection that is mostly silent waits in a small
// goroutine and has its messages handled in another.
const hotFor = 10 * time.Second

// scratch is what a goroutine needs to handle messages. It is borrowed for as
// long as there are any.
type scratch struct {
	peeker envelope.Peeker
	in     ingress.Context
	call   *Context
	latest *route // that was looked up, of this connection's router
}

var scratches = sync.Pool{New: func() any { return &scratch{call: new(Context)} }}

func (c *Conn) borrow() *scratch {
	s := scratches.Get().(*scratch)
	s.in.Bind(lazyContext{c}, c.id, c.ip, c.identity)
	return s
}

func (s *scratch) free() {
	s.in, s.latest = ingress.Context{}, nil // pins no connection
	scratches.Put(s)
}

// rest waits for the connection's next bytes, on a stack that stays small.
func (c *Conn) rest() {
	if err := c.stream.Await(); err != nil {
		go c.endReading(err)
		return
	}
	go c.read()
}

// endReading is the last the reader does.
func (c *Conn) endReading(err error) {
	if closed, ok := err.(*wire.Closed); ok {
		info := CloseInfo{Code: errors.CloseCode(closed.Code), Reason: closed.Reason}
		if closed.Violation {
			info.ByServer, info.Err = true, err
		}
		if info = c.note(info); !info.ByServer {
			c.drainEvents()
		}
	}
	c.end(err)
	c.stream.Release()
}

// read plays the reader's role until the connection ends, or until another
// goroutine has taken it over.
func (c *Conn) read() {
	for {
		reading, err := c.batch()
		if !reading {
			return
		}
		c.flushDeferred() // others wait for it, whatever became of this connection
		if err != nil {
			c.endReading(err)
			return
		}
		at := c.stream.Heard()
		cold := c.hotAt == 0 || at-c.hotAt > hotFor
		c.hotAt = at
		if cold {
			go c.rest()
			return
		}
		if err := c.stream.Await(); err != nil {
			c.endReading(err)
			return
		}
	}
}

// batch handles all messages in hand. reading is false when the role of the
// reader has been lost: the connection must not be touched any more.
func (c *Conn) batch() (reading bool, err error) {
	s := c.borrow()
	reading, err = c.handleAll(s)
	// Not deferred: a handler that calls runtime.Goexit leaves a Context behind
	// that is in use.
	s.free()
	return reading, err
}

func (c *Conn) handleAll(s *scratch) (reading bool, err error) {
	for {
		payload, found := c.stream.Next()
		switch found {
		case wire.Nothing:
			c.endFrame()
			return true, nil
		case wire.Ended:
			c.endFrame()
			return true, c.stream.Err()
		case wire.Partial:
			c.endFrame()
			if err := c.stream.More(); err != nil {
				return true, err
			}
			continue
		}
		c.beginFrame()
		if !c.dispatch(s, payload, found == wire.TooLarge) {
			return false, nil
		}
		if c.stream.Crowded() {
			c.endFrame()
			c.stream.HoldBack()
		}
	}
}
