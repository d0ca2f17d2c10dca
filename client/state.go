package client

import (
	"context"
	"time"
)

// Phase says what a [Client] does at the moment.
type Phase uint8

const (
	// Connecting: an attempt to connect is under way.
	Connecting Phase = iota
	// Connected: messages are sent and received.
	Connected
	// Waiting: the next attempt to connect is made at State.Next.
	Waiting
	// Closed: no attempt follows. Close was called, or the server or Options.Token refuses for good.
	Closed
)

// String returns the name of the phase.
func (p Phase) String() string {
	return [...]string{"connecting", "connected", "waiting", "closed"}[p]
}

// State is the state of a [Client]'s connection.
type State struct {
	// Phase is what the client does: Connecting, Connected, Waiting or Closed.
	Phase Phase
	// Connections is how many connections were opened so far. A topic without history ends with its
	// connection: subscribe again when the number has changed.
	Connections int
	// ConnectionID is the server's id of the connection, while it is open.
	ConnectionID string
	// Err is why there is no connection; nil while it is open. It is an *errors.Error, and contains a
	// *[CloseError] if the server closed the connection.
	Err error
	// Next is when the next attempt is made, while the phase is Waiting.
	Next time.Time
}

// State returns the state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Wait returns the first state, from now on, for which until is true, or the error of ctx. A state
// that lasts only for a moment may be missed; State.Connections shows whether a connection was
// opened since.
func (c *Client) Wait(ctx context.Context, until func(State) bool) (State, error) {
	for {
		c.mu.Lock()
		s, changed := c.state, c.changed
		c.mu.Unlock()
		if until(s) {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// enter begins a state, unless the client has ended.
func (c *Client) enter(s State) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Phase == Closed {
		return false
	}
	c.setState(s)
	return true
}

// setState is called with c.mu held.
func (c *Client) setState(s State) {
	s.Connections = max(s.Connections, c.state.Connections)
	c.state = s
	c.wakeWaiting()
}

// wakeWaiting has what waits for a change look again. c.mu is held.
func (c *Client) wakeWaiting() {
	close(c.changed)
	c.changed = make(chan struct{})
}
