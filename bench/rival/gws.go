package rival

import (
	"net/http"
	"sync"

	"github.com/lxzan/gws"

	"github.com/wskit/wskit/bench/server"
)

func gwsRoutes(compress bool) server.Routes {
	return server.Routes{
		Echo: upgradeGws(gwsEcho{}, compress),
		Fan:  upgradeGws(&gwsHub{members: make(map[*gws.Conn]struct{})}, compress),
		Visit: visited(func(w http.ResponseWriter, r *http.Request, leave func()) {
			upgradeGws(gwsVisit{leave: leave}, compress).ServeHTTP(w, r)
		}),
	}
}

// gwsVisit is gwsEcho for one connection.
type gwsVisit struct {
	gwsEcho
	leave func()
}

func (v gwsVisit) OnClose(*gws.Conn, error) { v.leave() }

// upgradeGws follows the library's README: its own goroutine runs the read loop "so
// that the context can be collected", and a panic is recovered per message. Parallel
// handling stays off: it would break the order of replies and costs a goroutine per
// frame.
func upgradeGws(handler gws.Event, compress bool) http.Handler {
	upgrader := gws.NewUpgrader(handler, &gws.ServerOption{
		// Its default, kept: 1 KB would save 4 KB per connection and cost some 15 %
		// more CPU when requests are pipelined. Gorilla beside it takes the other side.
		ReadBufferSize: 4096,
		Recovery:       gws.Recovery,
		// Compressors are shared, and its threshold of 512 bytes is kept.
		PermessageDeflate: gws.PermessageDeflate{Enabled: compress},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r)
		if err != nil {
			return // Upgrade has answered the request
		}
		go conn.ReadLoop()
	})
}

type gwsEcho struct{ gws.BuiltinEventHandler }

func (gwsEcho) OnMessage(conn *gws.Conn, message *gws.Message) {
	defer message.Close()
	out, err := answer(message.Bytes())
	if err != nil {
		conn.WriteClose(1003, []byte(err.Error()))
		return
	}
	// A failed write closes the connection by itself.
	_ = conn.WriteMessage(gws.OpcodeText, out)
}

// gwsHub uses the library's Broadcaster, which frames a message once for all subscribers.
type gwsHub struct {
	gws.BuiltinEventHandler
	mu      sync.RWMutex
	members map[*gws.Conn]struct{}
}

func (h *gwsHub) OnOpen(conn *gws.Conn) {
	h.mu.Lock()
	h.members[conn] = struct{}{}
	h.mu.Unlock()
}

func (h *gwsHub) OnClose(conn *gws.Conn, _ error) {
	h.mu.Lock()
	delete(h.members, conn)
	h.mu.Unlock()
}

func (h *gwsHub) OnMessage(conn *gws.Conn, message *gws.Message) {
	defer message.Close()
	out, err := publication(message.Bytes())
	if err != nil {
		conn.WriteClose(1003, []byte(err.Error()))
		return
	}
	broadcaster := gws.NewBroadcaster(gws.OpcodeText, out)
	defer broadcaster.Close()
	h.mu.RLock()
	defer h.mu.RUnlock()
	for member := range h.members {
		_ = broadcaster.Broadcast(member) // a member that is closing is no fault of the publisher
	}
}
