package logcache

import "github.com/wskit/wskit/pubsub"

// page is a run of messages of one page.
type page struct {
	from     pubsub.Position // before the first message
	messages []Message
	bytes    int
	reading  *read // nil: none is under way
}

type read struct {
	done chan struct{} // closed when it has ended
	err  error         // set before that

	dropped bool // the page is not to be kept; guarded by Cache.mu
}

// after returns the messages after a position. ok is false if the page does not have the position.
func (p *page) after(at pubsub.Position) (list []Message, ok bool) {
	if at == p.from {
		return p.messages, true
	}
	i := at.Offset - p.from.Offset - 1
	if at.Offset <= p.from.Offset || i >= uint64(len(p.messages)) || p.messages[i].At != at {
		return nil, false
	}
	return p.messages[i+1:], true
}

func (p *page) last() pubsub.Position {
	if n := len(p.messages); n > 0 {
		return p.messages[n-1].At
	}
	return p.from
}

// Before is the position of the message before one of the log.
func Before(m *pubsub.Message) pubsub.Position {
	return pubsub.Position{Epoch: m.Position.Epoch, Offset: m.Position.Offset - 1, Tag: m.Previous}
}

// readPage reads what a page does not have of the messages after a position. c.mu is held, and is not when it returns.
func (c *Cache) readPage(n uint64, p *page, at pubsub.Position) (list []Message, lost pubsub.Loss, err error) {
	under := &read{done: make(chan struct{})}
	p.reading = under
	first := n * PageMessages // the offset before the page
	last := p.last()
	c.mu.Unlock()

	var got page
	found := false
	if len(p.messages) > 0 && at.Epoch == last.Epoch && at.Offset < last.Offset && last.Offset > first+1 {
		// The position is before the messages that are there.
		got, lost, err = c.read(pubsub.ReadOptions{From: last, Backwards: true, Messages: int(last.Offset - first - 1)})
		if got.last().Offset+1 == last.Offset {
			end := p.messages[len(p.messages)-1]
			end.follows = false
			got.messages = append(got.messages, end)
			list, found = got.after(at)
		}
	}
	if err == nil && !found {
		got, lost, err = c.read(pubsub.ReadOptions{From: at, Messages: int(first + PageMessages - at.Offset)})
		list = got.messages
		if last == at {
			got.from = p.from
			if len(p.messages) > 0 {
				got.messages = append(p.messages[:len(p.messages):len(p.messages)], list...)
			}
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	p.reading, under.err = nil, err
	close(under.done)
	if err != nil || lost != "" {
		if len(p.messages) == 0 {
			delete(c.pages, n)
		}
		return nil, lost, err
	}
	size := 0
	for i := range got.messages {
		size += got.messages[i].size()
	}
	c.account(p, size-p.bytes)
	p.from, p.messages = got.from, got.messages
	if under.dropped {
		c.forget(n, p)
	}
	if c.full() {
		for other, o := range c.pages {
			if o.reading == nil && (o != p || c.full()) {
				c.forget(other, o)
			}
		}
	}
	return list, "", nil
}

func (c *Cache) full() bool { return c.bytes > mostBytes || c.source.Total.Load() > mostInAll }

// read reads messages of the log, of one page.
func (c *Cache) read(o pubsub.ReadOptions) (got page, lost pubsub.Loss, err error) {
	got.from = o.From
	o.Bytes = mostBytes / 8
	from, err := c.source.Read(o)
	if err != nil || from.Lost != "" {
		return got, from.Lost, err
	}
	if o.Backwards && len(from.Messages) > 0 {
		got.from = Before(&from.Messages[0])
	}
	var blocks blocks
	for i := range from.Messages {
		if from.Messages[i].Position.Offset != got.from.Offset+uint64(i)+1 {
			return got, "", ErrPage
		}
		blocks.left += len(from.Messages[i].Frame) + c.source.Overhead
	}
	got.messages = make([]Message, 0, len(from.Messages))
	c.source.Frames(from.Messages, func(frame []byte) {
		m := Message{At: from.Messages[len(got.messages)].Position}
		if frame != nil {
			m.Frame, m.follows = blocks.add(frame)
		}
		got.messages = append(got.messages, m)
	})
	return got, "", nil
}
