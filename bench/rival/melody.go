package rival

import (
	"net/http"
	"sync"

	"github.com/olahol/melody"

	"github.com/wskit/wskit/bench/server"
)

func melodyRoutes(compress bool) server.Routes {
	echo := newMelody(compress)
	echo.HandleMessage(func(s *melody.Session, frame []byte) {
		out, err := answer(frame)
		if err != nil {
			_ = s.Close()
			return
		}
		_ = s.Write(out) // fails only on a session that is closing
	})

	fan := newMelody(compress)
	fan.HandleMessage(func(s *melody.Session, frame []byte) {
		out, err := publication(frame)
		if err != nil {
			_ = s.Close()
			return
		}
		_ = fan.Broadcast(out)
	})

	return server.Routes{
		Echo: handleMelody(echo), Fan: handleMelody(fan),
		Visit: visited(func(w http.ResponseWriter, r *http.Request, leave func()) {
			defer leave()
			handleMelody(echo).ServeHTTP(w, r)
		}),
	}
}

// newMelody keeps melody's defaults (1 KB buffers, 256 queued messages a session) and
// adds what its documentation leaves to the user: pooled write buffers.
func newMelody(compress bool) *melody.Melody {
	m := melody.New()
	m.Upgrader.WriteBufferPool = &sync.Pool{}
	m.Upgrader.EnableCompression = compress
	return m
}

// handleMelody blocks in the HTTP handler for as long as the connection lives: that
// is the only way melody serves one.
func handleMelody(m *melody.Melody) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = m.HandleRequest(w, r) // the upgrader has answered a request it refused
	})
}
