package client

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
)

var errNotText = errors.New("the server sent text that is not UTF-8")

var errSlow = errors.New("the handlers are too slow, and one of them waits for an answer")

// malformed reports a frame that cannot be read. Others follow.
func (l *link) malformed(typ string, data []byte) error {
	return l.reportError(typ, errors.InvalidArgument.Errorf("the server sent a frame that is not valid: %.200q", data))
}

// reportError calls OnError in the order of the events.
func (l *link) reportError(typ string, err error) error {
	return l.deliver(len(typ), func(context.Context) { l.c.opts.OnError(typ, err) })
}

// receive takes a frame. An error ends the connection.
func (l *link) receive(kind websocket.MessageType, data []byte) error {
	if len(data) == 0 { // the library returns a frame without its payload when the connection ends there
		return nil
	}
	var f frame
	switch err := json.Unmarshal(data, &f); {
	case err != nil && kind == websocket.MessageText && !utf8.Valid(data):
		return errNotText
	case err != nil || f.Type == "":
		return l.malformed("", data)
	}
	id := f.Meta.CorrelationID
	switch {
	case f.Type == typeAbort:
		l.withdrawn(id)
	case f.fromServer():
		l.question(&f)
	case id != "":
		return l.answered(id, &f)
	case f.Type == typeError:
		typ, err := readFailure(f.Payload)
		return l.reportError(typ, err)
	case f.Type == typeExpiring:
		var notice struct {
			InMs int64 `json:"inMs"`
		}
		if json.Unmarshal(f.Payload, &notice) != nil {
			return l.malformed(f.Type, data)
		}
		l.expires(time.Duration(max(0, min(notice.InMs, maxAdvice))) * time.Millisecond)
	case f.Type == typeLimits:
		return l.limitsFrame(&f, data)
	case f.Type == typeSubscribed || f.Type == typeUnsubscribed || f.Type == typeReset || f.Type == typeGap:
		return l.topicFrame(&f, data)
	default:
		return l.event(&f, len(data))
	}
	return nil
}

// deliver has something called in the order of the events.
func (l *link) deliver(size int, call func(context.Context)) error {
	l.blocked.Store(true)
	added := l.c.inbox.put(l.ctx, delivery{call, size})
	l.received.Add(1)
	l.blocked.Store(false)
	switch {
	case added:
		return nil
	case l.ctx.Err() != nil:
		return l.ctx.Err()
	}
	return errSlow
}

// answered takes what belongs to a request.
func (l *link) answered(id string, f *frame) error {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered := l.asked[id]; answered != nil {
		delete(l.asked, id)
		answered(f)
		return nil
	}
	m := c.open[id]
	switch {
	case m == nil || m.at == queued: // late, or the second one
	case f.Type == typeProgress:
		if m.follow != nil {
			m.follow.add(f.Payload)
		}
	case f.Type == typeRPCError:
		_, err := readFailure(f.Payload)
		switch {
		case c.tryAgain(m, err):
		case m.request:
			c.settle(m, nil, err)
		default:
			delete(c.open, id)
			c.inbox.add(delivery{call: func(context.Context) { c.opts.OnError(m.typ, err) }})
		}
	case m.request:
		c.settle(m, f.Payload, nil)
	}
	return nil
}

// tryAgain has a message that was refused written again, if it may be. c.mu is held.
func (c *Client) tryAgain(m *message, err *errors.Error) bool {
	at, bounded := m.ctx.Deadline()
	switch {
	case m.ctx.Err() != nil || c.closing || !err.Retryable() || bounded && time.Until(at) <= err.RetryAfter:
		return false
	case m.o.WaitOnLimit && err.Code == errors.ResourceExhausted && err.RetryAfter > 0:
		if until := time.Now().Add(err.RetryAfter); until.After(c.pausedUntil) {
			c.pausedUntil = until
		}
		c.again(m)
	case m.request && m.o.IdempotencyKey != "" && err.Code == errors.Aborted:
		m.at = queued
		pause := ending{after: err.RetryAfter}.pause(m.repeats, &c.opts)
		time.AfterFunc(pause, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.again(m)
		})
	default:
		return false
	}
	return true
}
