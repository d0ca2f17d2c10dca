package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// presenceTopic is the topic that every connection joins.
const presenceTopic = "here"

// A Recorder records a [History] of what clients observe.
type Recorder struct {
	mu      sync.Mutex
	history History
	ids     int
}

// NewRecorder begins a history.
func NewRecorder() *Recorder {
	return &Recorder{history: History{From: time.Now(), Conns: map[string]*Conn{}}}
}

func (r *Recorder) do(f func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.history)
}

// id returns a new id.
func (r *Recorder) id(kind string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return kind + strconv.Itoa(r.ids)
}

// Fault adds a fault.
func (r *Recorder) Fault(f Fault) { r.do(func(h *History) { h.Faults = append(h.Faults, f) }) }

// Finish returns the history, including the journals. Call it after all clients have ended.
func (r *Recorder) Finish(journals ...string) (*History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.To = time.Now()
	for _, name := range journals {
		handled, err := readJournal(name)
		if err != nil {
			return nil, err
		}
		r.history.Handled = append(r.history.Handled, handled...)
	}
	return &r.history, nil
}

// Target is where clients connect: a server, or a proxy before it.
type Target struct{ Name, Addr string }

// Client connects to one of the targets after the other, sends requests for some
// seconds, waits for all answers, closes, and begins again, until ctx is done.
func Client(ctx context.Context, rec *Recorder, targets []Target) {
	for ctx.Err() == nil {
		c, err := open(ctx, rec, targets[rand.N(len(targets))])
		if err != nil {
			sleep(ctx, rand.N(100*time.Millisecond))
			continue
		}
		c.use(ctx)
	}
}

// conn is an open connection of a client.
type conn struct {
	id     string
	rec    *Recorder
	record *Conn
	ws     *websocket.Conn
	nc     net.Conn

	mu      sync.Mutex
	open    map[string]*Request // sent, and not answered
	members []string            // of the last answer to "members"
	joining string              // the request that joins the presence topic
	said    int
	changed chan struct{} // with a buffer of one
	ended   chan struct{}
}

// inFlight is the largest number of unanswered requests of a connection.
const inFlight = 8

func open(ctx context.Context, rec *Recorder, target Target) (*conn, error) {
	c := &conn{id: rec.id("conn"), rec: rec, open: map[string]*Request{}, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		c.nc = nc
		return nc, err
	}}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(ctx, "ws://"+target.Addr, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + c.id}},
	})
	if err != nil {
		return nil, err
	}
	c.ws, c.record = ws, &Conn{Server: target.Name}
	rec.do(func(h *History) { h.Conns[c.id] = c.record })
	go c.read()
	return c, nil
}

// message is a frame of a server.
type message struct {
	Type string `json:"type"`
	Meta struct {
		CorrelationID string `json:"correlationId"`
	} `json:"meta"`
	Payload struct {
		Said
		Code string   `json:"code"`
		IDs  []string `json:"ids"`
	} `json:"payload"`
}

func (c *conn) read() {
	defer close(c.ended)
	for {
		data, err := readFrame(context.Background(), c.ws)
		now := time.Now()
		if err != nil {
			end := Broke
			if websocket.CloseStatus(err) == websocket.StatusGoingAway {
				end = Drained
			}
			_ = c.ws.CloseNow()
			c.rec.do(func(*History) {
				if c.record.End == Open {
					c.record.End = end
				}
			})
			return
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			panic(fmt.Sprintf("a server sent %q: %v", data, err))
		}
		if id := m.Meta.CorrelationID; id != "" {
			c.answered(id, &m, now)
		} else if m.Type == "said" {
			c.rec.do(func(h *History) {
				h.Received = append(h.Received, Received{c.id, m.Payload.Topic, m.Payload.From, m.Payload.N})
			})
		}
	}
}

// readFrame reads a message of a server. The library returns what has come of a message as if it were all, if the
// connection ends where it begins to read a part of it. Then nothing comes after it.
func readFrame(ctx context.Context, ws *websocket.Conn) ([]byte, error) {
	_, data, err := ws.Read(ctx)
	if err == nil && !json.Valid(data) {
		if _, _, err := ws.Read(ctx); err != nil {
			return nil, err
		}
	}
	return data, err
}

func (c *conn) answered(id string, m *message, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[id]
	if q == nil {
		panic(fmt.Sprintf("a server answered %q, which %s has not sent", id, c.id))
	}
	c.rec.do(func(h *History) {
		if q.Answers++; q.Answers > 1 {
			return
		}
		q.OK, q.Code = m.Type != "RPC_ERROR", m.Payload.Code
		if q.OK && q.Sent.After(c.record.Alive) {
			c.record.Alive = q.Sent
		}
		if q.OK && q.ID == c.joining && c.record.Joined.IsZero() {
			c.record.Joined = now
		}
		if q.OK && q.Type == "members" {
			h.Sightings = append(h.Sightings, Sighting{q.Sent, now, m.Payload.IDs})
			c.members = m.Payload.IDs
		}
	})
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// send sends a request. It returns false when the connection has ended.
func (c *conn) send(typ string, payload func(id string) any) bool {
	q := &Request{ID: c.rec.id("q"), Type: typ, Conn: c.id}
	frame, err := json.Marshal(map[string]any{"type": typ, "meta": map[string]any{"correlationId": q.ID}, "payload": payload(q.ID)})
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	c.open[q.ID] = q
	c.mu.Unlock()
	c.rec.do(func(h *History) {
		q.Sent = time.Now()
		h.Requests = append(h.Requests, q)
	})
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, frame) == nil
}

// waiting counts the requests without an answer.
func (c *conn) waiting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec.do(func(*History) {
		for _, q := range c.open {
			if q.Answers == 0 {
				n++
			}
		}
	})
	return n
}

// awaitFewer waits until fewer than n requests have no answer. It returns false when
// the connection has ended, or answers are overdue.
func (c *conn) awaitFewer(n int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	defer cancel()
	for c.waiting() >= n {
		select {
		case <-c.changed:
		case <-c.ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// use sends requests of all types, and then ends the connection.
func (c *conn) use(ctx context.Context) {
	topic := "room" + strconv.Itoa(rand.N(3))
	join := func(topic string) bool {
		return c.send("join", func(id string) any {
			if topic == presenceTopic {
				c.joining = id
			}
			return Topic{topic}
		})
	}
	longest := 4 * time.Second
	if rand.N(8) == 0 {
		longest = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond+rand.N(longest))
	defer cancel()
	held := join(presenceTopic) && join(topic)
	for held && ctx.Err() == nil {
		if typ := rand.N(2 * len(workTypes)); typ < len(workTypes) {
			held = c.send(workTypes[typ], func(id string) any { return Work{id} })
		} else {
			c.said++
			held = c.send("say", func(string) any { return Said{topic, c.id, c.said} })
		}
		held = held && c.awaitFewer(inFlight)
		sleep(ctx, rand.N(12*time.Millisecond))
	}
	if rand.N(8) == 0 { // disconnects without a close frame
		c.end(Broke)
		_ = c.nc.Close()
	} else if held && c.awaitFewer(1) {
		c.end(Closed)
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
	} else if held {
		c.overdue()
	}
	_ = c.ws.CloseNow()
	<-c.ended
}

// end records that the client ends the connection, unless it has ended already.
func (c *conn) end(how End) {
	c.rec.do(func(*History) {
		if c.record.End == Open {
			c.record.End = how
		}
	})
}

// overdue ends a connection whose answers did not come in time. If the connection was not
// cut, the check reports them as missing.
func (c *conn) overdue() {
	select {
	case <-c.ended:
	default:
		c.end(Closed)
	}
}
