// Package gorilla is the application of docs/coming-from in the way of gorilla's chat example: a hub, and two
// goroutines for each connection.
package gorilla

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

const (
	writeTime = 10 * time.Second
	pongTime  = time.Minute
	pingTime  = 50 * time.Second
)

// A frame is what clients send and get.
type frame struct {
	Type  string `json:"type"`
	ID    string `json:"id,omitempty"` // of a request and its answer
	Room  string `json:"room,omitempty"`
	From  string `json:"from,omitempty"`
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

type client struct {
	name string
	conn *websocket.Conn
	out  chan []byte
	room string // of the hub
	gone bool   // of the hub: out is closed
}

type order struct {
	client *client
	frame  frame // the zero frame: the client leaves
}

// Hub serves the rooms. Its goroutine alone uses the map.
type Hub struct {
	orders   chan order
	upgrader websocket.Upgrader
}

// NewHub starts a hub.
func NewHub() *Hub {
	h := &Hub{orders: make(chan order)}
	go h.run()
	return h
}

func (h *Hub) run() {
	rooms := make(map[string]map[*client]bool)
	for o := range h.orders {
		c := o.client
		switch o.frame.Type {
		case "join":
			delete(rooms[c.room], c)
			if c.room = o.frame.Room; rooms[c.room] == nil {
				rooms[c.room] = make(map[*client]bool)
			}
			rooms[c.room][c] = true
			h.send(c, rooms, frame{Type: "joined", ID: o.frame.ID})
		case "say":
			for to := range rooms[c.room] {
				h.send(to, rooms, frame{Type: "said", From: c.name, Text: o.frame.Text})
			}
		default:
			h.remove(c, rooms)
		}
	}
}

func (h *Hub) send(to *client, rooms map[string]map[*client]bool, f frame) {
	b, _ := json.Marshal(f)
	if to.gone {
		return
	}
	select {
	case to.out <- b:
	default: // it reads too slowly
		h.remove(to, rooms)
	}
}

func (h *Hub) remove(c *client, rooms map[string]map[*client]bool) {
	if delete(rooms[c.room], c); len(rooms[c.room]) == 0 {
		delete(rooms, c.room)
	}
	if !c.gone {
		c.gone = true
		close(c.out)
	}
}

// ServeHTTP serves a connection.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &client{name: r.URL.Query().Get("name"), conn: conn, out: make(chan []byte, 256)}
	go c.write()
	c.read(h)
}

func (c *client) read(h *Hub) {
	defer func() {
		h.orders <- order{client: c}
		c.conn.Close()
	}()
	c.conn.SetReadLimit(64 << 10)
	c.conn.SetReadDeadline(time.Now().Add(pongTime))
	c.conn.SetPongHandler(func(string) error { return c.conn.SetReadDeadline(time.Now().Add(pongTime)) })
	for {
		var f frame
		if err := c.conn.ReadJSON(&f); err != nil {
			return // also for one frame that is no JSON
		}
		switch {
		case f.Type == "join" && f.Room != "" && len(f.Room) <= 40:
		case f.Type == "say" && f.Text != "" && len(f.Text) <= 500:
		default:
			continue // an error for this client would have to go through the hub
		}
		h.orders <- order{c, f}
	}
}

func (c *client) write() {
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	defer c.conn.Close()
	for {
		select {
		case b, ok := <-c.out:
			c.conn.SetWriteDeadline(time.Now().Add(writeTime))
			if !ok {
				c.conn.WriteMessage(websocket.CloseMessage, nil)
				return
			}
			if c.conn.WriteMessage(websocket.TextMessage, b) != nil {
				return
			}
		case <-ping.C:
			c.conn.SetWriteDeadline(time.Now().Add(writeTime))
			if c.conn.WriteMessage(websocket.PingMessage, nil) != nil {
				return
			}
		}
	}
}
