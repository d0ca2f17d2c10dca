// Package follow decides which messages of a log a process delivers to the subscribers of a
// topic: each message once, in the order of the log, or a reset. It has no I/O and no clock. The
// caller passes in what a subscription delivers and what was read of the log.
package follow

import "github.com/wskit/wskit/pubsub"

// LossTooFar means that more messages are missing than are to be read.
const LossTooFar pubsub.Loss = "tooFar"

const (
	// maxHeld and maxHeldBytes bound the messages that are held while the log is read. Others
	// are read from the log afterwards.
	maxHeld      = 256
	maxHeldBytes = 1 << 20
	// recent is the number of delivered messages that are recognized when they come again.
	recent = 64
)

// Cursor is the place of a process in the log of a topic. It is not safe for concurrent use. The
// zero Cursor has no place yet: the first read gives it the end of the log.
//
// After each call of another method, the caller calls Read to find out whether the log is to be read, and passes
// the result to Page or Failed.
type Cursor struct {
	// Most is the number of missing messages that are read; if more are missing, the cursor is
	// reset to the end of the log. 0: all.
	Most uint64

	last pubsub.Position // of the message that was delivered last
	tags [recent]uint32  // of the messages up to last, by offset; 0: not known

	held      []pubsub.Message // may follow last, but not directly
	heldBytes int
	early     int // of held: they had come before the read began

	missed  bool // the log may have messages that are neither delivered nor held
	reading bool
	from    pubsub.Position // of the read
}

// Position returns the position of the message that was delivered last, or at which the cursor
// began. It is zero before the first read.
func (c *Cursor) Position() pubsub.Position { return c.last }

// Live takes a message of the subscription, and reports whether it is to be delivered now.
func (c *Cursor) Live(m pubsub.Message) bool {
	p := m.Position
	switch {
	case c.follows(p, m.Previous):
		c.advance(p)
		return true
	case p.Epoch == c.last.Epoch && p.Offset <= c.last.Offset:
		// It was delivered before, or the log has lost its end and uses the offset again.
		if !c.agrees(p) {
			c.missed = true
		}
	case len(c.held) < maxHeld && c.heldBytes+len(m.Frame) <= maxHeldBytes:
		c.held = append(c.held, m)
		c.heldBytes += len(m.Frame)
	default:
		c.missed = true
	}
	return false
}

// follows reports whether a message is the one directly after the last.
func (c *Cursor) follows(p pubsub.Position, previous uint32) bool {
	return p.Epoch == c.last.Epoch && p.Offset == c.last.Offset+1 && previous == c.last.Tag && c.last.Epoch != 0
}

// agrees reports whether a position of the current epoch, not behind the last, is one that was
// delivered, as far as is known.
func (c *Cursor) agrees(p pubsub.Position) bool {
	if c.last.Offset-p.Offset >= recent || p.Offset == 0 {
		return true
	}
	tag := c.tags[p.Offset%recent]
	return tag == 0 || tag == p.Tag
}

func (c *Cursor) advance(p pubsub.Position) {
	c.last = p
	c.tags[p.Offset%recent] = p.Tag
}

// begin sets the cursor to a position that does not continue the last one.
func (c *Cursor) begin(p pubsub.Position) {
	clear(c.tags[:])
	c.advance(p)
}

// Lost takes a report that messages of the subscription were lost.
func (c *Cursor) Lost() { c.missed = true }

// Head takes the position of the log's last message. asked is the cursor's position when the
// look at the log began: the cursor may have advanced since.
func (c *Cursor) Head(head, asked pubsub.Position) {
	known := head.Epoch == c.last.Epoch && head.Offset <= c.last.Offset && c.agrees(head)
	if known && (head == c.last || asked.Epoch == head.Epoch && head.Offset >= asked.Offset) {
		return
	}
	c.missed = true
}

// Read reports whether the log is to be read now, and from which position: what follows it,
// or for the zero Position nothing but the head. The read has then begun.
func (c *Cursor) Read() (from pubsub.Position, ok bool) {
	if c.reading || !c.missed && len(c.held) == 0 && c.last.Epoch != 0 {
		return pubsub.Position{}, false
	}
	c.reading, c.missed = true, false
	c.from, c.early = c.last, len(c.held)
	return c.from, true
}

// Failed ends a read without a result. It is to be repeated after a pause.
func (c *Cursor) Failed() { c.reading, c.missed = false, true }

// Page ends a read with its result. If reset is not empty, the cursor has been moved to
// the position at, since it cannot go on without a gap; what is to be delivered comes
// after it. ok is false if the page is none that a log may return: then the read has failed.
func (c *Cursor) Page(p pubsub.Page) (deliver []pubsub.Message, reset pubsub.Loss, at pubsub.Position, ok bool) {
	if !valid(p, c.from) {
		c.Failed()
		return nil, "", at, false
	}
	c.reading = false
	lost := p.Lost
	if lost == "" && c.Most > 0 && c.from.Epoch != 0 && p.Head.Offset > c.from.Offset+c.Most {
		lost = LossTooFar
	}
	more := p.More && lost == "" && c.from.Epoch != 0
	switch {
	case c.from.Epoch == 0:
		c.begin(p.Head)
	case lost != "" && c.from != c.last:
		// Live messages have moved the cursor on: it depends on the place where it is now.
		c.missed = true
		return nil, "", at, true
	case lost != "":
		c.begin(p.Head)
		reset, at = lost, p.Head
	default:
		deliver = c.take(p.Messages)
	}
	return c.takeHeld(deliver, more), reset, at, true
}

// take advances over the messages of a page that follow.
func (c *Cursor) take(messages []pubsub.Message) []pubsub.Message {
	before := c.from
	for i, m := range messages {
		if before == c.last {
			for _, m := range messages[i:] {
				c.advance(m.Position)
			}
			return messages[i:]
		}
		before = m.Position
	}
	if before.Offset >= c.last.Offset && before != c.last {
		c.missed = true // what was delivered since is not what the log has
	}
	return nil
}

// takeHeld appends the held messages that follow now. Of the others it keeps those that
// came after the read had begun; the log does not have the earlier ones, unless there is more to be
// read.
func (c *Cursor) takeHeld(deliver []pubsub.Message, more bool) []pubsub.Message {
	kept := c.held[:0]
	c.heldBytes = 0
	for i, m := range c.held {
		switch {
		case c.follows(m.Position, m.Previous):
			c.advance(m.Position)
			deliver = append(deliver[:len(deliver):len(deliver)], m)
		case m.Position.Epoch == c.last.Epoch && m.Position.Offset <= c.last.Offset:
			if !c.agrees(m.Position) && i >= c.early {
				c.missed = true
			}
		case i >= c.early || more:
			kept = append(kept, m)
			c.heldBytes += len(m.Frame)
		}
	}
	clear(c.held[len(kept):])
	c.held = kept
	if len(kept) == 0 {
		c.held = nil
	}
	c.missed = c.missed || more
	return deliver
}

// valid reports whether a page can be what follows a position.
func valid(p pubsub.Page, from pubsub.Position) bool {
	if !Valid(p.Head) || p.Lost != "" && len(p.Messages) > 0 {
		return false
	}
	if from.Epoch == 0 || p.Lost != "" {
		return true
	}
	before := from
	for _, m := range p.Messages {
		if m.Position.Epoch != from.Epoch || m.Position.Offset != before.Offset+1 || !Valid(m.Position) {
			return false
		}
		before = m.Position
	}
	if p.More {
		return len(p.Messages) > 0 && p.Head.Epoch == from.Epoch && p.Head.Offset > before.Offset
	}
	return p.Head == before
}

// Valid reports whether a position is one that a log may have.
func Valid(p pubsub.Position) bool { return p.Epoch != 0 && (p.Tag == 0) == (p.Offset == 0) }
