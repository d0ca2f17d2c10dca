package router

import (
	"slices"
)

// Guards are what middleware before decoding has appended to a message, such as the places of a
// concurrency limit. They are begun when the message's turn has come, and not when it arrives: a
// message that waits behind another one of its connection needs no place, and none that is
// refused, answered in place of its handler, or dropped can leave one behind.

// dropGuards removes the guards of the frame before.
func (s *scratch) dropGuards() {
	clear(s.in.State.Guards)
	s.in.State.Guards = s.in.State.Guards[:0]
}

// guardBy takes over the guards of a message. The protocol's own messages have none: a client at
// its limit can still renew its identity.
func (c *Context) guardBy(s *scratch) {
	if !c.route.protocol {
		c.guards = slices.Clone(s.in.State.Guards)
	}
}

// callHandler calls the handler with its middleware, within the message's guards.
func (c *Context) callHandler() error {
	if c.guards == nil {
		return c.route.handle(c)
	}
	begun := c.guards[:0:len(c.guards)]
	defer func() {
		for _, g := range slices.Backward(begun) {
			g.End()
		}
	}()
	for _, g := range c.guards {
		if err := g.Begin(c); err != nil {
			return err
		}
		begun = begun[:len(begun)+1]
	}
	return c.route.handle(c)
}
