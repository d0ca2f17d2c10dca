package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/router"
)

// Post is a message to a feed, which is a topic with history.
type Post struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// registerFeeds adds the routes of feeds.
func registerFeeds(r *router.Router) {
	r.History("feed:*", router.HistoryOptions{Messages: 200})
	router.RPC(r, "follow", func(c *router.Context, p Post) (Done, error) {
		return Done{}, c.Subscribe(p.Topic)
	})
	router.RPC(r, "post", func(c *router.Context, p Post) (Done, error) {
		return Done{}, c.Publish(p.Topic, "posted", p, router.PublishOptions{ID: p.ID})
	}, router.RouteOptions{Concurrent: true})
}

// A Feed is a client that follows a topic with history, over connections that end. It keeps the
// latest ticket and position, and resumes with them. What it gets it records.
type Feed struct {
	Client, Topic string
	Recorder      *deliverytest.Recorder
	Targets       []Target

	joined      bool
	ticket, pos string

	mu   sync.Mutex
	last string // ID of the message that was received last
}

// Last is the ID of the message that was received last.
func (f *Feed) Last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Settled records that nothing more will come.
func (f *Feed) Settled() {
	if f.joined {
		f.record(deliverytest.Settled, "", "")
	}
}

func (f *Feed) record(kind deliverytest.Kind, id, reason string) {
	f.Recorder.Record(deliverytest.Event{Kind: kind, Client: f.Client, Topic: f.Topic, ID: id, Pos: f.pos, Reason: reason, OK: kind == deliverytest.Resumed && reason == ""})
}

// Follow follows the topic until ctx ends. Where restless returns true, it ends its connection soon, or stays
// away longer.
func (f *Feed) Follow(ctx context.Context, restless func() bool) {
	for ctx.Err() == nil {
		f.connection(ctx, restless)
		away := 50 * time.Millisecond
		if restless() {
			away = 500 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(away)):
		}
	}
}

// feedFrame is a frame that a Feed gets.
type feedFrame struct {
	Type string
	Meta struct {
		Topic, Pos, CorrelationID string
	}
	Payload struct {
		ID, Topic, Pos, Ticket, Reason string
		Topics                         []struct {
			Resumed        bool
			Ticket, Reason string
		}
	}
}

// dialFeed opens a connection of a user.
func dialFeed(ctx context.Context, user string, targets []Target) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+targets[rand.IntN(len(targets))].Addr, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + user}},
	})
	return ws, err
}

// connection follows the topic over one connection. It ends with the first error.
func (f *Feed) connection(ctx context.Context, restless func() bool) {
	ws, err := dialFeed(ctx, f.Client, f.Targets)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	if restless() {
		defer time.AfterFunc(rand.N(time.Second), func() { _ = ws.CloseNow() }).Stop()
	}
	ask := fmt.Sprintf(`{"type":"follow","meta":{"correlationId":"1"},"payload":{"topic":%q}}`, f.Topic)
	if f.ticket != "" {
		ask = fmt.Sprintf(`{"type":"$ws:resume","meta":{"correlationId":"1"},"payload":{"topics":[{"ticket":%q,"pos":%q}]}}`, f.ticket, f.pos)
	}
	if ws.Write(ctx, websocket.MessageText, []byte(ask)) != nil {
		return
	}
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return
		}
		var frame feedFrame
		if err := json.Unmarshal(text, &frame); err != nil {
			panic(fmt.Sprintf("a server sent %q: %v", text, err))
		}
		if !f.take(frame) {
			return
		}
	}
}

// take takes a frame, and returns false if the connection is of no use.
func (f *Feed) take(frame feedFrame) bool {
	switch p := frame.Payload; frame.Type {
	case "posted":
		f.pos = frame.Meta.Pos
		f.record(deliverytest.Received, p.ID, "")
		f.mu.Lock()
		defer f.mu.Unlock()
		f.last = p.ID
	case "$ws:subscribed":
		if f.ticket = p.Ticket; !f.joined {
			f.joined, f.pos = true, p.Pos
			f.record(deliverytest.Joined, "", "")
		}
	case "$ws:reset":
		f.pos = p.Pos
		f.record(deliverytest.Reset, "", p.Reason)
	case "$ws:resumed":
		switch t := p.Topics[0]; {
		case t.Resumed:
			f.record(deliverytest.Resumed, "", "")
			f.ticket = t.Ticket
		case t.Ticket != "": // after $ws:reset
			f.ticket = t.Ticket
		case t.Reason == deliverytest.Denied:
			f.record(deliverytest.Resumed, "", t.Reason)
			f.joined, f.ticket = false, ""
			return false
		default:
			return false
		}
	case "ERROR", "RPC_ERROR":
		return false
	}
	return true
}

// PostUntilKnown posts a message, and repeats it over other connections until it is acknowledged or ctx ends. It returns
// the connection for the next one.
func PostUntilKnown(ctx context.Context, r *deliverytest.Recorder, ws *websocket.Conn, user string, targets []Target, p Post) *websocket.Conn {
	e := deliverytest.Event{Kind: deliverytest.Published, Topic: p.Topic, ID: p.ID, Outcome: deliverytest.Acked, Begun: r.Now()}
	ask, _ := json.Marshal(map[string]any{"type": "post", "meta": map[string]string{"correlationId": p.ID}, "payload": p})
	for {
		if ws == nil {
			ws, _ = dialFeed(ctx, user, targets)
		}
		if ws != nil {
			if answer, err := askOnce(ctx, ws, ask, p.ID); err == nil && answer == "post.reply" {
				break
			} else if err != nil {
				_ = ws.CloseNow()
				ws = nil
			}
		}
		if ctx.Err() != nil {
			e.Outcome = deliverytest.Unknown
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.Record(e)
	return ws
}

// askOnce returns the type of the answer to a request.
func askOnce(ctx context.Context, ws *websocket.Conn, ask []byte, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := ws.Write(ctx, websocket.MessageText, ask); err != nil {
		return "", err
	}
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return "", err
		}
		var frame feedFrame
		if err := json.Unmarshal(text, &frame); err != nil {
			return "", err
		}
		if frame.Meta.CorrelationID == id {
			return frame.Type, nil
		}
	}
}
