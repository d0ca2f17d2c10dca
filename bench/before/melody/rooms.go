// Package melody is the application of docs/coming-from in the way of melody.
package melody

import (
	"encoding/json"
	"net/http"

	"github.com/olahol/melody"
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

// Handler serves the rooms.
func Handler() http.Handler {
	m := melody.New()
	m.Config.MaxMessageSize = 64 << 10 // 512 bytes by default
	m.HandleConnect(func(s *melody.Session) {
		s.Set("name", s.Request.URL.Query().Get("name"))
	})
	m.HandleMessage(func(s *melody.Session, data []byte) {
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			send(s, frame{Type: "error", Error: "not JSON"})
			return
		}
		switch f.Type {
		case "join":
			if f.Room == "" || len(f.Room) > 40 {
				send(s, frame{Type: "error", ID: f.ID, Error: "no such room"})
				return
			}
			s.Set("room", f.Room)
			send(s, frame{Type: "joined", ID: f.ID})
		case "say":
			room, ok := s.Get("room")
			if !ok || f.Text == "" || len(f.Text) > 500 {
				send(s, frame{Type: "error", Error: "join a room first, and say something"})
				return
			}
			b, _ := json.Marshal(frame{Type: "said", From: s.MustGet("name").(string), Text: f.Text})
			_ = m.BroadcastFilter(b, func(to *melody.Session) bool { // looks at all sessions
				other, _ := to.Get("room")
				return other == room
			})
		default:
			send(s, frame{Type: "error", ID: f.ID, Error: "no such type"})
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = m.HandleRequest(w, r) })
}

func send(s *melody.Session, f frame) {
	b, _ := json.Marshal(f)
	_ = s.Write(b)
}
