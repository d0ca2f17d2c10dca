package rival

import (
	"net/http"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/wskit/wskit/bench/server"
)

func gorillaRoutes(compress bool) server.Routes {
	upgrader := &websocket.Upgrader{
		// The size in the library's own examples; several frames of this work fit.
		ReadBufferSize:  1024,
		WriteBufferSize: 1024,
		// An idle connection then holds no write buffer.
		WriteBufferPool:   &sync.Pool{},
		EnableCompression: compress,
	}
	accept := func(w http.ResponseWriter, r *http.Request, leave func()) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has answered the request
		}
		// Off the handler, so that net/http can free what belongs to the request.
		go func() {
			defer leave()
			echoGorilla(conn)
		}()
	}
	return server.Routes{
		Echo:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { accept(w, r, func() {}) }),
		Visit: visited(accept),
	}
}

func echoGorilla(conn *websocket.Conn) {
	defer conn.Close()
	for {
		_, frame, err := conn.ReadMessage()
		if err != nil {
			return
		}
		out, err := answer(frame)
		if err != nil {
			return
		}
		if err := conn.WriteMessage(websocket.TextMessage, out); err != nil {
			return
		}
	}
}
