package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	delays []time.Duration // of the messages since the last call of take
}

// subscribed is what a client is sent when it has joined a topic.
type subscribed struct {
	Ticket string `json:"ticket"`
	Pos    string `json:"pos"`
}

// join opens a connection and subscribes it.
func join(ctx context.Context, addr, topic string) (*websocket.Conn, subscribed, error) {
	var answer struct {
		Type    string
		Payload subscribed
	}
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/ws", nil)
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
		c, _, err := join(ctx, addr, live)
		if err != nil {
			o.close()
			return nil, err
		}
		o.members = append(o.members, c)
		o.reading.Go(func() { o.read(ctx, c) })
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
func (o *others) read(ctx context.Context, c *websocket.Conn) {
	for {
		_, in, err := c.Read(ctx)
		if err != nil {
			return
		}
		now := time.Now().UnixNano()
		var m struct{ Payload message }
		if json.Unmarshal(in, &m) != nil || m.Payload.Sent == 0 {
			continue // the answer to join
		}
		o.mu.Lock()
		o.delays = append(o.delays, time.Duration(now-m.Payload.Sent))
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

// during measures the delays while do runs, in microseconds: p50 and p99. All messages have to arrive.
func (o *others) during(ctx context.Context, rate int, do func() error) (p50, p99 float64, err error) {
	end, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- do(); close(end) }()
	sent, err := o.publish(ctx, rate, end)
	if err := errors.Join(<-done, err); err != nil {
		return 0, 0, err
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
			slices.Sort(all)
			return micros(all[want/2]), micros(all[want*99/100]), nil
		case time.Since(start) > 10*time.Second:
			return 0, 0, fmt.Errorf("%d of %d messages have arrived", len(all), want)
		}
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
