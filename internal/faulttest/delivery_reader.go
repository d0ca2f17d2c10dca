package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/deliverytest"
)

// A reader is a client of topics with history. It enters them, and after each reconnect, to any server, it
// resumes them with the latest ticket and position of each. It records what it observes.
type reader struct {
	name string
	d    *Delivery
	rand *rand.Rand

	mu     sync.Mutex
	topics map[string]*readerTopic

	// for describe, guarded by mu
	failures, unavailable int
	failure               error
}

// readerTopic is the state of a reader for a topic. It keeps ticket and pos when the connection ends.
type readerTopic struct {
	name, ticket, pos string

	// Of the connection:
	state    topicState
	sent     time.Time // of the request that is not answered
	from     string    // where the resume began
	received []string  // positions since then
	reset    string    // the reason of the last $ws:reset since then
}

type topicState uint8

const (
	outside topicState = iota
	entering
	resuming
	member
	leaving
)

// readerConn is a connection of a reader.
type readerConn struct {
	*reader
	ws       *websocket.Conn
	frames   chan []byte
	ids      int
	requests map[string]*readerTopic // enter and leave, by correlation id
	resume   string                  // the correlation id of $ws:resume; empty: none
	resumed  []*readerTopic          // its topics
	// again is set if the connection is of no use any more.
	again bool
}

const (
	// silence is the time without a frame after which a reader gives a connection up, while the topics
	// are busy. Afterwards the servers have to find what is missing.
	silence = 3 * time.Second
	// overdue is the time for an answer.
	overdue = 15 * time.Second
)

// read follows the topics until ctx ends.
func (r *reader) read(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := r.dial(ctx)
		if err == nil {
			c.use(ctx)
		} else {
			r.mu.Lock()
			r.failures, r.failure = r.failures+1, err
			r.mu.Unlock()
		}
		sleep(ctx, time.Duration(r.rand.IntN(150))*time.Millisecond)
	}
}

// dialDelivery opens a connection that has small buffers.
func dialDelivery(ctx context.Context, addr, user string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = nc.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return nc, err
	}}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(ctx, "ws://"+addr, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + user}},
	})
	if err == nil {
		ws.SetReadLimit(-1)
	}
	return ws, err
}

func (r *reader) dial(ctx context.Context) (*readerConn, error) {
	ws, err := dialDelivery(ctx, r.d.target(r.rand), r.name)
	if err != nil {
		return nil, err
	}
	r.d.count(&r.d.Connections, 1)
	return &readerConn{reader: r, ws: ws, frames: make(chan []byte), requests: make(map[string]*readerTopic)}, nil
}

// use follows the topics on a connection until it ends.
func (c *readerConn) use(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(c.frames)
		for {
			frame, err := readFrame(ctx, c.ws)
			if err != nil {
				return
			}
			select {
			case c.frames <- frame:
			case <-ctx.Done():
				return
			}
		}
	})
	defer func() {
		cancel()
		_ = c.ws.CloseNow()
		reading.Wait()
		c.end()
	}()
	c.mu.Lock()
	c.begin()
	c.mu.Unlock()
	begun, stay := time.Now(), time.Duration(100+c.rand.IntN(4000))*time.Millisecond
	heard := begun
	tick := make(chan struct{})
	reading.Go(func() {
		for ctx.Err() == nil {
			sleep(ctx, 50*time.Millisecond)
			select {
			case tick <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	slow := 0 // frames that are read slowly
	for !c.again {
		select {
		case frame, ok := <-c.frames:
			if !ok {
				return
			}
			heard = time.Now()
			c.mu.Lock()
			c.take(frame)
			c.mu.Unlock()
			if slow > 0 {
				slow--
				sleep(ctx, 5*time.Millisecond)
			}
		case <-tick:
			calm := c.d.calm.Load()
			if !calm && (elapsed(heard) > silence || elapsed(begun) > stay) {
				if c.rand.IntN(2) == 0 {
					_ = c.ws.Close(websocket.StatusNormalClosure, "")
				}
				return
			}
			if !calm && (c.rand.IntN(100) == 0 || c.d.stalled.Load()) { // reads nothing for some time
				sleep(ctx, time.Duration(c.rand.IntN(1500))*time.Millisecond)
				heard = time.Now()
			} else if !calm && c.rand.IntN(20) == 0 {
				slow = 20
			}
			c.mu.Lock()
			c.act(calm)
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// begin resumes what the reader was a member of.
func (c *readerConn) begin() {
	for _, t := range c.topics {
		if t.ticket != "" {
			t.state = resuming
		}
	}
	c.sendResume()
	c.act(c.d.calm.Load())
}

// end is called when the connection has ended.
func (c *readerConn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.topics {
		if t.state == leaving {
			c.left(t)
		}
		t.state = outside
	}
}

func (c *readerConn) left(t *readerTopic) {
	c.record(deliverytest.Event{Kind: deliverytest.Left, Topic: t.name})
	*t = readerTopic{name: t.name}
}

func (c *readerConn) record(e deliverytest.Event) {
	e.Client = c.name
	c.d.Recorder.Record(e)
}

// act does what is due.
func (c *readerConn) act(calm bool) {
	for _, t := range c.topics {
		switch {
		case t.state == outside:
			t.state, t.sent = entering, time.Now()
			c.request("enter", t)
		case t.state == member && !calm && c.rand.IntN(400) == 0:
			t.state, t.sent = leaving, time.Now()
			c.request("leave", t)
		case t.state != member && elapsed(t.sent) > overdue:
			c.again = true
		}
	}
	c.sendResume()
}

func (c *readerConn) request(typ string, t *readerTopic) {
	id := c.send(typ, Topic{t.name})
	c.requests[id] = t
}

func (c *readerConn) send(typ string, payload any) (id string) {
	c.ids++
	id = strconv.Itoa(c.ids)
	if !writeRequest(c.ws, typ, id, payload) {
		c.again = true
	}
	return id
}

// writeRequest returns false when the connection has ended.
func writeRequest(ws *websocket.Conn, typ, id string, payload any) bool {
	frame, err := json.Marshal(map[string]any{"type": typ, "meta": map[string]any{"correlationId": id}, "payload": payload})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), overdue)
	defer cancel()
	return ws.Write(ctx, websocket.MessageText, frame) == nil
}

// sendResume resumes the topics that are to be resumed, unless a resume is under way.
func (c *readerConn) sendResume() {
	if c.resume != "" {
		return
	}
	type entry struct {
		Ticket string `json:"ticket"`
		Pos    string `json:"pos"`
	}
	var entries []entry
	c.resumed = nil
	for _, t := range c.topics {
		if t.state == resuming {
			t.sent, t.from, t.received, t.reset = time.Now(), t.pos, nil, ""
			c.resumed = append(c.resumed, t)
			entries = append(entries, entry{t.ticket, t.pos})
		}
	}
	if len(entries) > 0 {
		c.resume = c.send("$ws:resume", map[string]any{"topics": entries})
	}
}

// deliveryFrame is a frame of a server.
type deliveryFrame struct {
	Type string `json:"type"`
	Meta struct {
		CorrelationID string `json:"correlationId"`
		Topic         string `json:"topic"`
		Pos           string `json:"pos"`
	} `json:"meta"`
	Payload struct {
		ID     string         `json:"id"`
		Code   string         `json:"code"`
		Topic  string         `json:"topic"`
		Pos    string         `json:"pos"`
		Ticket string         `json:"ticket"`
		Reason string         `json:"reason"`
		Topics []resumeAnswer `json:"topics"`
	} `json:"payload"`
}

type resumeAnswer struct {
	Topic    string `json:"topic"`
	Resumed  bool   `json:"resumed"`
	Replayed int    `json:"replayed"`
	Pos      string `json:"pos"`
	Ticket   string `json:"ticket"`
	Reason   string `json:"reason"`
}

// wrong reports an answer that PROTOCOL.md does not allow.
func (c *readerConn) wrong(format string, args ...any) {
	c.d.violated(c.name + ": " + fmt.Sprintf(format, args...))
	c.again = true
}

// take takes a frame.
func (c *readerConn) take(frame []byte) {
	var m deliveryFrame
	if err := json.Unmarshal(frame, &m); err != nil {
		c.wrong("got %q: %v", frame, err)
		return
	}
	p := &m.Payload
	switch m.Type {
	case "$ws:subscribed":
		t := c.topics[p.Topic]
		switch {
		case t == nil || p.Ticket == "" || p.Pos == "":
			c.wrong("got %s", frame)
		case t.state == entering && t.ticket == "":
			t.ticket, t.pos = p.Ticket, p.Pos
			c.record(deliverytest.Event{Kind: deliverytest.Joined, Topic: t.name, Pos: t.pos})
		case t.pos != p.Pos:
			c.wrong("got a ticket for %s at %s, and is at %s", t.name, p.Pos, t.pos)
		default:
			t.ticket = p.Ticket
		}
	case "$ws:reset":
		t := c.topics[p.Topic]
		if t == nil {
			c.wrong("got %s", frame)
			return
		}
		t.pos, t.reset = p.Pos, p.Reason
		c.record(deliverytest.Event{Kind: deliverytest.Reset, Topic: t.name, Pos: p.Pos, Reason: p.Reason})
	case "$ws:unsubscribed":
		if t := c.topics[p.Topic]; t == nil || t.state != leaving {
			c.wrong("got %s", frame)
		}
	case "appended":
		t := c.topics[m.Meta.Topic]
		if t == nil {
			c.wrong("got %s", frame)
			return
		}
		t.pos = m.Meta.Pos
		if t.state == resuming {
			t.received = append(t.received, t.pos)
		}
		c.record(deliverytest.Event{Kind: deliverytest.Received, Topic: t.name, Pos: t.pos, ID: p.ID})
	default:
		c.answered(m.Meta.CorrelationID, &m, frame)
	}
}

func (c *readerConn) answered(id string, m *deliveryFrame, frame []byte) {
	refused := m.Type == "RPC_ERROR"
	if id != "" && id == c.resume {
		c.resume = ""
		if refused {
			c.d.outcome("error " + m.Payload.Code)
			c.again = true
			return
		}
		if len(m.Payload.Topics) != len(c.resumed) {
			c.wrong("got %s", frame)
			return
		}
		for i, t := range c.resumed {
			c.answeredTopic(t, m.Payload.Topics[i])
		}
		return
	}
	t := c.requests[id]
	delete(c.requests, id)
	switch {
	case t == nil:
		c.wrong("got %s", frame)
	case t.state == leaving:
		c.left(t)
	case t.state != entering:
		c.wrong("got %s", frame)
	case refused && t.ticket != "":
		c.wrong("has entered %s, and got %s", t.name, frame)
	case refused:
		c.again = true // and tries another server
	case t.ticket == "":
		c.wrong("has entered %s without a ticket", t.name)
	default:
		t.state = member
	}
}

// answeredTopic takes the answer for one topic of a resume.
func (c *readerConn) answeredTopic(t *readerTopic, a resumeAnswer) {
	outcome := a.Reason
	if a.Resumed {
		outcome = "resumed"
	}
	c.d.outcome(outcome)
	switch {
	case a.Reason == "unavailable":
		c.unavailable++
		c.again = c.rand.IntN(2) == 0 // or again on this connection
	case a.Reason == deliverytest.Denied:
		c.record(deliverytest.Event{Kind: deliverytest.Resumed, Topic: t.name, Reason: a.Reason})
		*t = readerTopic{name: t.name}
	case a.Topic != t.name || a.Ticket == "":
		c.wrong("resumed %s, and got %+v", t.name, a)
	case a.Resumed:
		c.d.count(&c.d.Replayed, a.Replayed)
		// It has become a member behind the messages that were replayed.
		before := append([]string{t.from}, t.received...)
		if t.reset == "" && (a.Replayed >= len(before) || before[a.Replayed] != a.Pos) {
			c.wrong("resumed %s and received %d messages, the answer says %d, and place %d for %s", t.name, len(t.received), a.Replayed, slices.Index(before, a.Pos), a.Pos)
		}
		c.record(deliverytest.Event{Kind: deliverytest.Resumed, Topic: t.name, OK: true})
		t.ticket, t.state = a.Ticket, member
	case t.reset == "" || a.Pos == "":
		c.wrong("got no $ws:reset of %s before %+v", t.name, a)
	default:
		t.ticket, t.state = a.Ticket, member
	}
}

// at returns where the reader is in a topic, if it is a member.
func (r *reader) at(topic string) (pos string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.topics[topic]; t.state == member {
		return t.pos
	}
	return ""
}

// describe says what the reader is doing with a topic.
func (r *reader) describe(topic string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[topic]
	return fmt.Sprintf("state %d at %q, %v after its last request; %d connections failed, %d answers were unavailable, the last one failed for %v",
		t.state, t.pos, elapsed(t.sent).Round(time.Millisecond), r.failures, r.unavailable, r.failure)
}
