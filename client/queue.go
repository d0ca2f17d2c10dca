package client

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// message is a message of the application, from the call until its outcome is known.
type message struct {
	ctx     context.Context
	o       MessageOptions
	typ     string
	payload jsontext.Value
	own     jsontext.Value // members of meta
	size    int
	request bool
	handler *Client   // whose handler sends it; nil: none
	follow  *progress // nil: progress is not wanted

	// Guarded by Client.mu.
	seq     uint64 // its place among the messages
	id      string // the correlation id; empty for most events
	at      place
	repeats int         // how often it was written before
	stop    func() bool // ends the waiting for ctx

	done  chan struct{} // closed when the following is set
	reply jsontext.Value
	err   error
}

// place is where a message is.
type place uint8

const (
	queued  place = iota // or about to be, after a pause
	written              // and not answered
	settled
)

func newMessage(ctx context.Context, typ string, payload any, o MessageOptions) (m *message, err error) {
	m = &message{ctx: ctx, o: o, typ: typ, done: make(chan struct{})}
	m.handler, _ = ctx.Value(handling{}).(*Client)
	if m.payload, err = payloadOf(typ, payload); err != nil {
		return nil, err
	}
	if len(o.Meta) > 0 {
		if m.own, err = json.Marshal(o.Meta); err != nil {
			return nil, err
		}
	}
	m.size = len(m.payload) + len(m.own) + len(typ)
	return m, nil
}

// encode is called when the message is about to be written: the time that it has left is in it.
func (m *message) encode() ([]byte, error) {
	meta := outgoingMeta{CorrelationID: m.id, IdempotencyKey: m.o.IdempotencyKey, Own: m.own}
	if at, ok := m.ctx.Deadline(); ok && m.request {
		meta.TimeoutMs = max(1, time.Until(at).Milliseconds())
	}
	return json.Marshal(outgoing{Type: m.typ, Meta: meta, Payload: m.payload})
}

// queue has the messages that are to be written, in their order. It is guarded by Client.mu.
type queue struct {
	list  []*message // by seq
	bytes int
	moved chan struct{} // closed and replaced when there is more room
}

func (q *queue) room(m *message, o *Options) bool {
	return len(q.list) < o.MaxQueued && q.bytes+m.size <= o.MaxQueuedBytes
}

func (q *queue) find(m *message) (int, bool) {
	return slices.BinarySearchFunc(q.list, m.seq, func(have *message, seq uint64) int { return cmp.Compare(have.seq, seq) })
}

// insert puts a message into its place.
func (q *queue) insert(m *message) {
	if i, ok := q.find(m); !ok {
		q.list = slices.Insert(q.list, i, m)
		q.bytes += m.size
	}
}

func (q *queue) remove(m *message) {
	i, ok := q.find(m)
	if !ok {
		return
	}
	if i == 0 {
		q.list[0] = nil
		q.list = q.list[1:]
	} else {
		q.list = slices.Delete(q.list, i, i+1)
	}
	q.bytes -= m.size
	close(q.moved)
	q.moved = make(chan struct{})
}

// enqueue adds a message, when there is room for it.
func (c *Client) enqueue(m *message) error {
	for {
		if m.ctx.Err() != nil {
			return ended(m.ctx, false)
		}
		c.mu.Lock()
		if c.closing {
			defer c.mu.Unlock()
			return c.reason()
		}
		if c.queue.room(m, &c.opts) {
			break
		}
		moved := c.queue.moved
		c.mu.Unlock()
		if !c.opts.WaitForRoom || m.size > c.opts.MaxQueuedBytes {
			return ErrQueueFull
		}
		select {
		case <-moved:
		case <-c.ctx.Done():
		case <-m.ctx.Done():
		}
	}
	defer c.mu.Unlock()
	c.seq++
	m.seq = c.seq
	if m.request || m.o.WaitOnLimit {
		m.id = c.newID()
		c.open[m.id] = m
	}
	c.unsettled++
	c.queue.insert(m)
	m.stop = context.AfterFunc(m.ctx, func() { c.giveUp(m) })
	c.wake()
	return nil
}

// settle ends a message. c.mu is held.
func (c *Client) settle(m *message, reply jsontext.Value, err error) {
	if m.at == settled {
		return
	}
	c.queue.remove(m)
	delete(c.open, m.id)
	m.at = settled
	m.stop()
	c.known(m)
	select {
	case <-m.done: // an event that was refused after it had been written
		if err != nil {
			c.opts.Logger.Warn("wskit client: a message failed", "type", m.typ, "error", err)
		}
	default:
		m.reply, m.err = reply, err
		close(m.done)
	}
	if c.unsettled--; c.closing {
		c.close()
	}
}

// again queues a message that was written before. c.mu is held.
func (c *Client) again(m *message) {
	switch {
	case m.at == settled && m.request: // its context has ended
		return
	case m.at == settled:
		c.unsettled++
	}
	m.at = queued
	m.repeats++
	c.known(m)
	c.queue.insert(m)
	c.wake()
}

// written is called when a message has left. An event that a limit may refuse is kept, until it is one of
// many.
func (c *Client) written(m *message) {
	if m == nil || m.request {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.at != written { // refused already
		return
	}
	c.settle(m, nil, nil)
	if m.id == "" {
		return
	}
	c.open[m.id] = m
	m.ctx = c.ctx // that of Send has bounded Send
	if c.refusable = append(c.refusable, m); len(c.refusable) > c.opts.MaxQueued {
		if oldest := c.refusable[0]; oldest.at == settled {
			delete(c.open, oldest.id)
		}
		c.refusable = c.refusable[1:]
	}
}

// notWritten is called when writing a message has failed. The server may have got it. Requests are for lost.
func (c *Client) notWritten(m *message, err error) {
	if m == nil || m.request {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.at != written:
	case m.o.IdempotencyKey != "":
		c.again(m)
	default:
		c.settle(m, nil, unknownOutcome(err))
	}
}

// giveUp ends a message whose context has ended.
func (c *Client) giveUp(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.at == written && m.request && c.link != nil {
		c.link.push(outgoing{Type: typeAbort, Meta: outgoingMeta{CorrelationID: m.id}})
	}
	c.settle(m, nil, ended(m.ctx, m.at == written || m.repeats > 0))
}

// admitted is the time after which a message that was not refused counts as admitted. Until then those that a
// limit has refused, too, are not written again: all but one would be refused.
const admitted = time.Second

// known is called when a message was answered, or lost. c.mu is held.
func (c *Client) known(m *message) {
	if c.probe == m {
		c.probe = nil
		c.wake()
	}
}

// next takes the frame that is to be written now. If there is none, it returns how long to wait, 0 for no
// bound.
func (c *Client) next(l *link) (b []byte, m *message, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.control) > 0 {
		b, l.control = l.control[0], l.control[1:]
		return b, nil, 0
	}
	until := c.pausedUntil
	if c.probe != nil && c.probeUntil.After(until) {
		until = c.probeUntil
	}
	wait = max(0, time.Until(until))
	for wait == 0 && !l.resuming && len(c.queue.list) > 0 {
		m = c.queue.list[0]
		if b, err := m.encode(); err != nil {
			c.settle(m, nil, err)
		} else {
			c.queue.remove(m)
			m.at = written
			if c.limits != nil {
				c.limits.sent[m.typ]++
			}
			if m.request && m.o.WaitOnLimit && m.repeats > 0 {
				c.probe, c.probeUntil = m, time.Now().Add(admitted)
			}
			return b, m, 0
		}
	}
	return nil, nil, wait
}
