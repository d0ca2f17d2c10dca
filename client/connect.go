package client

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
)

// run keeps a connection open until the client ends.
func (c *Client) run() {
	for failures := 0; ; failures++ {
		if !c.enter(State{Phase: Connecting, Err: c.State().Err}) {
			return
		}
		e := c.attempt()
		if e.err.Code == errors.Unauthenticated {
			e.fatal = c.denyToken() || e.fatal
		}
		if c.State().Phase == Closed {
			return
		}
		if e.fatal {
			c.opts.Logger.Warn("wskit client: the server cannot be used", "url", c.url, "error", e.err)
			c.stop(e.err)
			c.inbox.stop() // what was received is handled
			return
		}
		if e.open >= stable {
			failures = 0
		}
		pause := e.pause(failures, &c.opts)
		c.opts.Logger.Info("wskit client: not connected", "url", c.url, "error", e.err, "pause", pause)
		if !c.enter(State{Phase: Waiting, Err: e.err, Next: time.Now().Add(pause)}) || !sleep(c.ctx, pause) {
			return
		}
	}
}

// attempt connects, and returns when the connection has ended.
func (c *Client) attempt() ending {
	l, e := c.connect()
	if l == nil {
		return e
	}
	opened := time.Now()
	e = l.serve()
	e.open = time.Since(opened)
	c.lost(l, e)
	return e
}

func (c *Client) connect() (*link, ending) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.ConnectTimeout)
	defer cancel()
	header := c.opts.Header.Clone()
	if c.opts.Token != nil {
		token, err := c.fetchToken(ctx)
		if err != nil {
			return nil, ending{err: tokenError(err), fatal: refusesForGood(err)}
		}
		if header == nil {
			header = make(http.Header)
		}
		header.Set("Authorization", "Bearer "+token)
	}
	ws, res, err := websocket.Dial(ctx, c.url, &websocket.DialOptions{HTTPClient: handshaker(c.opts.HTTPClient, c.url), HTTPHeader: header})
	if err != nil {
		return nil, refused(res, err)
	}
	ws.SetReadLimit(-1) // see readMessage
	l := newLink(c, ws)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Phase == Closed {
		l.cancel()
		go func() { _ = ws.CloseNow() }()
		return nil, ending{err: ErrClosed}
	}
	c.link = l
	l.resumeAll()
	if c.limits != nil {
		c.limits.ask(l)
	}
	c.setState(State{Phase: Connected, Connections: c.state.Connections + 1, ConnectionID: res.Header.Get("X-Client-Id")})
	return l, ending{}
}

// lost is called when a connection has ended: what was written and not answered has an unknown outcome.
func (c *Client) lost(l *link, e ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.slow = nil, errors.Is(e.err, errSlow)
	for _, m := range c.open {
		switch {
		case m.at != written:
		case m.o.IdempotencyKey != "" && !e.guilty:
			c.again(m)
		default:
			c.settle(m, nil, unknownOutcome(e.err))
		}
	}
	for _, m := range c.refusable {
		if m.at == settled {
			delete(c.open, m.id)
		}
	}
	c.refusable = nil
}
