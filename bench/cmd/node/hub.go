package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/bench/load"
)

// hub is a server as an experienced engineer writes it by hand: one connection to Redis subscribes to the topics of
// this process's members, which a map has, and each member has a bounded queue and a goroutine that writes. A message
// is encoded once, by the process that publishes it. A full queue drops the message.
type hub struct {
	client *redis.Client
	sub    *redis.PubSub

	mu     sync.RWMutex
	topics map[string]map[*member]struct{}
}

type member struct{ queue chan []byte }

// queued is how many messages may wait for a member.
const queued = 256

// frame is a message on the wire.
type frame struct {
	Type    string `json:"type"`
	Meta    *meta  `json:"meta,omitempty"`
	Payload any    `json:"payload"`
}

type meta struct {
	CorrelationID string `json:"correlationId"`
}

func newHub(client *redis.Client) node {
	h := &hub{client: client, sub: client.Subscribe(context.Background()), topics: map[string]map[*member]struct{}{}}
	go h.receive()
	return h
}

func (h *hub) publishAll(ctx context.Context, topics []string, messages int, every time.Duration) error {
	return concurrently(ctx, h.publish, topics, messages, every)
}

func (h *hub) publish(ctx context.Context, m message) error {
	text, err := json.Marshal(frame{Type: "said", Payload: m})
	if err != nil {
		return err
	}
	return h.client.Publish(ctx, m.Topic, text).Err()
}

// receive delivers what is published to the members of its topic.
func (h *hub) receive() {
	for {
		m, err := h.sub.ReceiveMessage(context.Background())
		if err != nil {
			log.Fatal("node: ", err) // go-redis connects again by itself
		}
		h.deliver(m.Channel, []byte(m.Payload))
	}
}

func (h *hub) deliver(topic string, text []byte) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for m := range h.topics[topic] {
		select {
		case m.queue <- text:
		default:
		}
	}
}

// ServeHTTP hands the connection to a goroutine of its own and returns, so that net/http can free the request and its
// buffers.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered the request
	}
	go h.serve(conn)
}

func (h *hub) serve(conn *websocket.Conn) {
	defer conn.CloseNow()
	m := &member{queue: make(chan []byte, queued)}
	go m.write(conn)
	var joined []string
	defer func() {
		h.leave(m, joined)
		close(m.queue) // it is in no topic any more, and deliver sends under the lock
	}()
	for {
		_, text, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		var request struct {
			Type    string
			Meta    meta
			Payload join
		}
		if err := json.Unmarshal(text, &request); err != nil || request.Type != "join" || request.Payload.Room == "" {
			_ = conn.Close(websocket.StatusUnsupportedData, "not a join")
			return
		}
		for _, topic := range []string{load.AllTopic, request.Payload.Room} {
			if err := h.join(m, topic); err != nil {
				log.Print("node: ", err)
				return
			}
			joined = append(joined, topic)
		}
		answer, err := json.Marshal(frame{Type: "joined", Meta: &request.Meta, Payload: struct{}{}})
		if err != nil {
			return
		}
		m.queue <- answer
	}
}

func (h *hub) join(m *member, topic string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	members := h.topics[topic]
	if members == nil {
		if err := h.sub.Subscribe(context.Background(), topic); err != nil {
			return err
		}
		members = map[*member]struct{}{}
		h.topics[topic] = members
	}
	members[m] = struct{}{}
	return nil
}

func (h *hub) leave(m *member, topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range topics {
		members := h.topics[topic]
		delete(members, m)
		if len(members) == 0 && members != nil {
			delete(h.topics, topic)
			_ = h.sub.Unsubscribe(context.Background(), topic)
		}
	}
}

func (m *member) write(conn *websocket.Conn) {
	for text := range m.queue {
		if err := conn.Write(context.Background(), websocket.MessageText, text); err != nil {
			_ = conn.CloseNow()
			for range m.queue { // so that the answer to a join never waits
			}
			return
		}
	}
}
