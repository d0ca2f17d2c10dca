// Package before has the applications that docs/coming-from shows before they use wskit.
package before

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/wskit/wskit/bench/before/gorilla"
	"github.com/wskit/wskit/bench/before/melody"
)

// A message reaches the members of its room, and no other client.
func TestRooms(t *testing.T) {
	for name, handler := range map[string]http.Handler{"gorilla": gorilla.NewHub(), "melody": melody.Handler()} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			dial := func(name string) *websocket.Conn {
				c, _, err := websocket.DefaultDialer.Dial(strings.Replace(server.URL, "http", "ws", 1)+"?name="+name, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			send := func(c *websocket.Conn, frame string) {
				if err := c.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
					t.Fatal(err)
				}
			}
			expect := func(c *websocket.Conn, want string) {
				t.Helper()
				if _, got, err := c.ReadMessage(); string(got) != want || err != nil {
					t.Fatalf("got %s, %v; want %s", got, err, want)
				}
			}
			ann, bob, cid := dial("ann"), dial("bob"), dial("cid")
			for c, room := range map[*websocket.Conn]string{ann: "lobby", bob: "lobby", cid: "cellar"} {
				send(c, `{"type":"join","id":"1","room":"`+room+`"}`)
				expect(c, `{"type":"joined","id":"1"}`)
			}
			send(ann, `{"type":"say","text":"hi"}`)
			expect(ann, `{"type":"said","from":"ann","text":"hi"}`)
			expect(bob, `{"type":"said","from":"ann","text":"hi"}`)
			send(cid, `{"type":"say","text":"dark"}`)
			expect(cid, `{"type":"said","from":"cid","text":"dark"}`)
		})
	}
}
