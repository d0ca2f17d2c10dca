package rival

import (
	"context"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/bench/server"
)

func coderRoutes(compress bool) server.Routes {
	hub := coderHub{members: make(map[*coderMember]struct{})}
	return server.Routes{
		Echo: acceptCoder(echoCoder, compress),
		Fan:  acceptCoder(hub.serve, compress),
		Visit: visited(func(w http.ResponseWriter, r *http.Request, leave func()) {
			acceptCoder(func(conn *websocket.Conn) {
				defer leave()
				echoCoder(conn)
			}, compress).ServeHTTP(w, r)
		}),
	}
}

// acceptCoder hands the connection to a goroutine of its own and returns, so that
// net/http can free the request and its 8 KB of buffers.
func acceptCoder(serve func(*websocket.Conn), compress bool) http.Handler {
	var opts websocket.AcceptOptions
	if compress {
		opts.CompressionMode = websocket.CompressionNoContextTakeover
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &opts)
		if err != nil {
			return // Accept has answered the request
		}
		go serve(conn)
	})
}

func echoCoder(conn *websocket.Conn) {
	defer conn.CloseNow()
	// A context that cannot be cancelled is the library's fast path.
	ctx := context.Background()
	for {
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return
		}
		out, err := answer(frame)
		if err != nil {
			conn.Close(websocket.StatusUnsupportedData, err.Error())
			return
		}
		if err := conn.Write(ctx, websocket.MessageText, out); err != nil {
			return
		}
	}
}

// coderHub is the hub of the library's own chat example: a set of members, each with
// a bounded queue and a writer goroutine; a full queue drops the message.
type coderHub struct {
	mu      sync.RWMutex
	members map[*coderMember]struct{}
}

type coderMember struct {
	queue chan []byte
}

func (h *coderHub) serve(conn *websocket.Conn) {
	defer conn.CloseNow()
	m := &coderMember{queue: make(chan []byte, 256)}
	h.mu.Lock()
	h.members[m] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.members, m)
		h.mu.Unlock()
		close(m.queue) // safe: publish sends only to members, under the lock
	}()
	go m.write(conn)

	for {
		_, frame, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		out, err := publication(frame)
		if err != nil {
			conn.Close(websocket.StatusUnsupportedData, err.Error())
			return
		}
		h.publish(out)
	}
}

func (h *coderHub) publish(message []byte) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for m := range h.members {
		select {
		case m.queue <- message:
		default:
		}
	}
}

func (m *coderMember) write(conn *websocket.Conn) {
	for message := range m.queue {
		if err := conn.Write(context.Background(), websocket.MessageText, message); err != nil {
			conn.CloseNow()
			return
		}
	}
}
