package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// loadConn is a connection of a load.
type loadConn struct {
	*load
	n  int
	ws *websocket.Conn

	mu   sync.Mutex
	open map[int]bool  // the messages without an answer, by their number; true: it was the only one when it was sent
	idle chan struct{} // closed when all were sent and answered
	over bool          // all were sent
}

// dialAll opens the connections, and has each make the requests of -call.
func (l *load) dialAll(ctx context.Context, url string) ([]*loadConn, error) {
	conns := make([]*loadConn, l.loads.connections)
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var dialing sync.WaitGroup
	for range min(l.loads.dialsAtOnce, len(conns)) {
		dialing.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(conns) && failure.Load() == nil && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				conn, err := l.dialOne(ctx, url, i)
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				conns[i] = conn
			}
		})
	}
	dialing.Wait()
	opened := slices.DeleteFunc(conns, func(c *loadConn) bool { return c == nil })
	if err := failure.Load(); err != nil || ctx.Err() != nil {
		for _, c := range opened {
			_ = c.ws.CloseNow()
		}
		if err == nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("connection %d of %d: %w", len(opened)+1, l.loads.connections, *err)
	}
	return opened, nil
}

func (l *load) dialOne(ctx context.Context, url string, n int) (*loadConn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	ws, err := l.connect(ctx, url, numbered(l.token, n))
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	c := &loadConn{load: l, n: n, ws: ws, open: make(map[int]bool), idle: make(chan struct{})}
	for i, text := range l.calls {
		typ, payload, err := splitCall(numbered(text, n))
		if err == nil {
			err = c.ask(ctx, fmt.Sprint("setup-", i), typ, payload)
		}
		if err != nil {
			_ = ws.CloseNow()
			return nil, fmt.Errorf("-call %s: %w", text, err)
		}
	}
	return c, nil
}

// numbered is a text for a connection, with its number.
func numbered(text string, n int) string { return strings.ReplaceAll(text, "{{n}}", strconv.Itoa(n)) }

// ask makes a request before the load begins, and waits for its answer.
func (c *loadConn) ask(ctx context.Context, id, typ string, payload json.RawMessage) error {
	if err := c.write(ctx, id, typ, payload); err != nil {
		return err
	}
	for {
		_, text, err := c.ws.Read(ctx)
		if err != nil {
			return err
		}
		var a answer
		if json.Unmarshal(text, &a) != nil || a.Meta.ID != id || !a.final() {
			continue
		}
		if code := a.refused(); code != "" {
			return fmt.Errorf("%s: %s", code, a.Payload)
		}
		return nil
	}
}

func (c *loadConn) write(ctx context.Context, id, typ string, payload json.RawMessage) error {
	frame, err := json.Marshal(map[string]any{"type": typ, "meta": map[string]string{"correlationId": id}, "payload": payload})
	if err != nil {
		return err
	}
	return c.ws.Write(ctx, websocket.MessageText, frame)
}

// sendAll sends the messages of this connection: each n-th of all.
func (c *loadConn) sendAll(ctx context.Context, n int) {
	for i := c.n; i < c.due && ctx.Err() == nil; i += n {
		select {
		case <-time.After(time.Until(c.dueAt(i))):
		case <-ctx.Done():
		}
		w := c.pick()
		c.note(i, w.answered)
		if err := c.write(ctx, strconv.Itoa(i), w.name, c.all.payload(w.name, c.n)); err != nil {
			c.failed("the connection has ended")
			break
		}
		c.sent.Add(1)
	}
	reading, cancel := context.WithTimeout(ctx, c.timeout)
	_ = c.ws.Ping(reading) // when it is answered, the server has read all messages, also those without an answer
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.rest()
}

// note notes a message that is answered.
func (c *loadConn) note(i int, answered bool) {
	if answered {
		c.asked.Add(1)
		c.mu.Lock()
		c.open[i] = len(c.open) == 0
		c.mu.Unlock()
	}
}

// rest closes idle if nothing is open. c.mu is held.
func (c *loadConn) rest() {
	if c.over && len(c.open) == 0 {
		select {
		case <-c.idle:
		default:
			close(c.idle)
		}
	}
}

// readAll takes what the server sends.
func (c *loadConn) readAll(ctx context.Context) {
	for {
		_, text, err := c.ws.Read(ctx)
		if err != nil { // what is open will not be answered
			c.mu.Lock()
			defer c.mu.Unlock()
			clear(c.open)
			c.rest()
			return
		}
		if !bytes.Contains(text, []byte(`"correlationId"`)) {
			c.events.Add(1)
			continue
		}
		now := time.Now()
		var a answer
		if json.Unmarshal(text, &a) != nil {
			continue
		}
		i, err := strconv.Atoi(a.Meta.ID)
		code := a.refused()
		if err != nil || !a.final() {
			continue
		}
		c.mu.Lock()
		alone, open := c.open[i]
		delete(c.open, i)
		c.rest()
		c.mu.Unlock()
		if code != "" {
			c.failed(code)
		} else if open {
			c.answered.Add(1)
			c.latency.add(now.Sub(c.dueAt(i)))
			if alone {
				c.waiting.add(now.Sub(c.dueAt(i)))
			}
		}
	}
}
