package client

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// Meta is what the server says about an event besides its payload.
type Meta struct {
	// Topic is the topic of an event from a topic with history, and Pos its position.
	Topic, Pos string
	own        map[string]jsontext.Value
}

// Value decodes a member that the application has added to meta. It returns false if there is none.
func (m Meta) Value(name string, v any) (bool, error) {
	value, ok := m.own[name]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(value, v)
}

type handler struct {
	call func(context.Context, jsontext.Value, Meta) error
}

// handling is the key of the client in the contexts of its handlers.
type handling struct{}

// On calls handle for each event of a type, until stop is called:
//
//	stop := client.On(c, "chat.message", func(ctx context.Context, m Message, _ client.Meta) { … })
//
// All handlers of a client are called by one goroutine, in the order of the events. A handler that takes long
// delays those behind it and, when Options.MaxQueued events wait, the connection. It may send requests with ctx, which
// ends with the client. It may be called once more while stop is called. An event that does not decode, and a
// panic, are reported to Options.OnError.
//
// Events of a type without a handler are dropped, or go to Options.OnEvent: see Options.Setup for those that come
// early.
func On[T any](c *Client, typ string, handle func(context.Context, T, Meta)) (stop func()) {
	h := &handler{func(ctx context.Context, payload jsontext.Value, meta Meta) (err error) {
		defer contain(&err)
		v, err := decode[T](typ, payload)
		if err != nil {
			return errors.InvalidArgument.Wrap(err, "the event does not decode")
		}
		handle(ctx, v, meta)
		return nil
	}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[typ] = append(slices.Clip(c.handlers[typ]), h) // a copy: it may be in use
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.handlers[typ] = slices.DeleteFunc(slices.Clone(c.handlers[typ]), func(have *handler) bool { return have == h })
	}
}

// onEvent makes a handler of Options.OnEvent.
func (c *Client) onEvent(typ string) func(context.Context, jsontext.Value, Meta) error {
	return func(ctx context.Context, payload jsontext.Value, meta Meta) (err error) {
		defer contain(&err)
		c.opts.OnEvent(ctx, typ, payload, meta)
		return nil
	}
}

// event takes an event. Its position is known before it is handled.
func (l *link) event(f *frame, size int) error {
	meta := Meta{f.Meta.Topic, f.Meta.Pos, f.Meta.Own}
	c := l.c
	c.mu.Lock()
	if c.comesAgain(meta.Topic, meta.Pos) {
		c.mu.Unlock()
		return nil
	}
	known := len(c.handlers[f.Type]) > 0 || c.opts.OnEvent != nil
	c.mu.Unlock()
	if known {
		err := l.deliver(size, func(ctx context.Context) {
			c.mu.Lock()
			handlers := c.handlers[f.Type]
			c.mu.Unlock()
			if len(handlers) == 0 && c.opts.OnEvent != nil { // which stop may have changed since
				handlers = []*handler{{c.onEvent(f.Type)}}
			}
			for _, h := range handlers {
				if err := h.call(ctx, f.Payload, meta); err != nil {
					c.opts.OnError(f.Type, err)
				}
			}
		})
		if err != nil { // it comes again when the topic is resumed
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveTo(meta.Topic, meta.Pos)
	return nil
}
