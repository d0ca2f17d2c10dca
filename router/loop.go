package router

import (
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/turn"
	"github.com/wskit/wskit/router/internal/wire"
)

// hotFor is how long a connection stays with the goroutine that handled its last
// message. Handlers make stacks grow, and a grown stack is held for as long as
// its goroutine lives; so a connection that is mostly silent leaves the goroutine that
// has handled a message for a new one.
const hotFor = 10 * time.Second

// rest waits for the connection's next message, on a stack that stays small until it has come. When bytes have come,
// it waits for its turn to read them: many clients may have been silent until now.
func (c *Conn) rest() {
	for {
		err := c.stream.AwaitReadable()
		if err == nil {
			c.router.fair.Await()
			err = c.stream.Await()
		}
		if err == nil {
			err = c.stream.Controls()
		}
		if err != nil {
			c.endReading(err)
			return
		}
		if c.stream.InHand() {
			break
		}
	}
	c.read()
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
		c.peer.FlushBatch() // others wait for it, whatever became of this connection
		if err != nil {
			c.endReading(err)
			return
		}
		before := c.hotAt
		c.hotAt = c.stream.Heard()
		if before == 0 || c.hotAt-before > hotFor {
			go c.rest()
			return
		}
		if err := c.stream.Await(); err != nil {
			c.endReading(err)
			return
		}
	}
}

// batch handles all messages that have come. reading is false when the role of the
// reader has been lost: the connection must not be touched any more.
func (c *Conn) batch() (reading bool, err error) {
	s := c.borrow()
	returned := false
	defer func() {
		s.counts.Move(&c.router.stats.waited)
		if returned { // a handler that calls runtime.Goexit leaves a Context behind that is in use
			s.free()
		}
	}()
	reading, err = c.handleAll(s)
	returned = true
	return reading, err
}

func (c *Conn) handleAll(s *scratch) (reading bool, err error) {
	for {
		payload, found := c.stream.Next()
		switch found {
		case wire.Nothing:
			c.turn.EndFrame()
			return true, nil
		case wire.Ended:
			c.turn.EndFrame()
			return true, c.stream.Err()
		case wire.Partial:
			c.turn.EndFrame()
			s.counts.Move(&c.router.stats.waited)
			if err := c.stream.More(); err != nil {
				return true, err
			}
			continue
		}
		c.turn.BeginFrame()
		c.watch()
		if !c.dispatch(s, payload, found == wire.TooLarge) {
			return false, nil
		}
		if c.stream.Crowded() {
			c.turn.EndFrame()
			s.counts.Move(&c.router.stats.waited)
			c.stream.HoldBack()
		}
	}
}

// watch puts a connection under observation that takes up a frame or begins to run a handler.
func (c *Conn) watch() {
	if c.turn.Watch() {
		c.router.watchdog.Add(&c.watched, c.stripe)
	}
}

// observe reports whether the connection has to be looked at again.
func (c *Conn) observe() bool {
	seen, again := c.turn.Look()
	if seen == turn.TakenOver {
		go c.read()
	}
	c.stream.Out.Flush()
	c.peer.FlushBatchConcurrently() // may be many connections, and the watchdog has others
	return again
}
