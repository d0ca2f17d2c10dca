package faulttest

import (
	"net/http"
	"strings"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/runcheck"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// The topics with history of a delivery server. Of room, all messages are kept that a run publishes; of
// short, only a few, so that those that a reader needs are removed; of replay, only a few are
// replayed.
const (
	roomTopic   = "room:a"
	shortTopic  = "short"
	replayTopic = "replay"
)

var deliveryTopics = []string{roomTopic, shortTopic, replayTopic}

// Append has a server publish Count messages of the topic, one after the other. Their ids are ID/0, ID/1
// and so on. To repeat it is safe.
type Append struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Count int    `json:"count"`
	Size  int    `json:"size"` // of each, about, in bytes
}

// Appended is an event.
type Appended struct {
	ID  string `json:"id"`
	Pad string `json:"pad"`
}

// newDeliveryRouter returns a router with topics with history, and with runs.
func newDeliveryRouter(backend adapters.Backend) (*router.Router, error) {
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
		Backend:      backend,
		HistoryCheck: 200 * time.Millisecond,
		Resume:       router.ResumeOptions{Keys: [][]byte{[]byte(strings.Repeat("k", 32))}, MaxAge: 4 * time.Minute},
		Limits:       router.Limits{MaxQueued: 128 << 10, SocketBuffer: 16 << 10},
		Liveness:     router.Liveness{DrainWindow: time.Millisecond, PingInterval: 2 * time.Second, PongTimeout: 2 * time.Second, WriteTimeout: 3 * time.Second},
	})
	r.History(roomTopic, router.HistoryOptions{Messages: 1_000_000, Bytes: 1 << 30})
	r.History(shortTopic, router.HistoryOptions{Messages: 40})
	r.History("rep*", router.HistoryOptions{Messages: 1_000_000, Bytes: 1 << 30, Replay: 60})

	router.RPC(r, "enter", func(c *router.Context, t Topic) (Done, error) { return Done{}, c.Subscribe(t.Topic) })
	router.RPC(r, "leave", func(c *router.Context, t Topic) (Done, error) {
		c.Unsubscribe(t.Topic)
		return Done{}, nil
	})
	router.RPC(r, "append", func(c *router.Context, a Append) (Done, error) {
		for i := range a.Count {
			id := appendID(a.ID, i)
			err := c.Publish(a.Topic, "appended", Appended{id, strings.Repeat(".", a.Size)}, router.PublishOptions{ID: id})
			if err != nil {
				return Done{}, err
			}
		}
		return Done{a.ID}, nil
	})
	runs, err := run.New(r)
	if err != nil {
		return nil, err
	}
	runcheck.Handle(runs)
	return r, nil
}
