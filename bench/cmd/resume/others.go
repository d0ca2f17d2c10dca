package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// others are the clients of the live topic, and the one that publishes there.
type others struct {
	publisher *websocket.Conn
	members   []*websocket.Conn
	reading   sync.WaitGroup

	mu     sync.Mutex
	delays []time.Duration // in the order of arrival; of this call of during
}

// subscribed is what a client is sent when it has joined a topic.
type subscribed struct {
	Ticket string `json:"ticket"`
	Pos    string `json:"pos"`
}

// join opens a connection and subscribes it.
func join(ctx context.Context, addr, topic string, options *websocket.DialOptions) (*websocket.Conn, subscribed, error) {
	var answer struct {
		Type    string
		Payload subscribed
	}
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/ws", options)
	if err != nil {
		return nil, subscribed{}, err
	}
	c.SetReadLimit(1 << 20)
	err = c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"join","meta":{"correlationId":"j"},"payload":%q}`, topic))
	for err == nil && answer.Type != "$ws:subscribed" {
		var in []byte
		if _, in, err = c.Read(ctx); err == nil {
			err = json.Unmarshal(in, &answer)
		}
	}
	return c, answer.Payload, err
}

func openOthers(ctx context.Context, addr string, n int) (o *others, err error) {
	o = &others{}
	for range n {
		stamped := new(stampedConn)
		c, _, err := join(ctx, addr, live, stamped.dialOptions())
		if err != nil {
			o.close()
			return nil, err
		}
		o.members = append(o.members, c)
		o.reading.Go(func() { o.read(ctx, c, stamped) })
	}
	if o.publisher, _, err = websocket.Dial(ctx, "ws://"+addr+"/ws", nil); err != nil {
		o.close()
	}
	return o, err
}

func (o *others) close() {
	for _, c := range o.members {
		_ = c.CloseNow()
	}
	if o.publisher != nil {
		_ = o.publisher.CloseNow()
	}
	o.reading.Wait()
}

// read takes the delays of a member's messages.
func (o *others) read(ctx context.Context, c *websocket.Conn, stamped *stampedConn) {
	for {
		_, in, err := c.Read(ctx)
		if err != nil {
			return
		}
		var m struct{ Payload message }
		if json.Unmarshal(in, &m) != nil || m.Payload.Sent == 0 {
			continue // the answer to join
		}
		o.mu.Lock()
		o.delays = append(o.delays, stamped.arrived.Sub(time.Unix(0, m.Payload.Sent)))
		o.mu.Unlock()
	}
}

// publish sends messages at a rate until the end is closed.
func (o *others) publish(ctx context.Context, rate int, end <-chan struct{}) (sent int, err error) {
	pause := time.Second / time.Duration(rate)
	for due := time.Now(); ; due = due.Add(pause) {
		select {
		case <-end:
			return sent, nil
		case <-time.After(time.Until(due)):
		}
		frame, err := json.Marshal(map[string]any{"type": "say", "payload": message{Sent: time.Now().UnixNano(), Text: text}})
		if err == nil {
			err = o.publisher.Write(ctx, websocket.MessageText, frame)
		}
		if err != nil {
			return sent, err
		}
		sent++
	}
}

// during returns the delays of what is published while do runs. All messages have to arrive.
func (o *others) during(ctx context.Context, rate int, do func() error) ([]time.Duration, error) {
	end, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- do(); close(end) }()
	sent, err := o.publish(ctx, rate, end)
	if err := errors.Join(<-done, err); err != nil {
		return nil, err
	}
	want := sent * len(o.members)
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		o.mu.Lock()
		all := o.delays
		if len(all) == want {
			o.delays = nil
		}
		o.mu.Unlock()
		switch {
		case len(all) == want && want > 0:
			return all, nil
		case time.Since(start) > 10*time.Second:
			return nil, fmt.Errorf("%d of %d messages have arrived", len(all), want)
		}
	}
}
