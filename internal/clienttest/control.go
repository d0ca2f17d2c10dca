package clienttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// controls is the handler of the controls. Pages of any origin may use it.
func (s *Server) controls() http.Handler {
	mux := http.NewServeMux()
	do(mux, "/stop", s.Stop)
	do(mux, "/start", s.Start)
	do(mux, "/restart", s.Restart)
	do(mux, "/drain", s.Drain)
	do(mux, "/use", s.Use)
	do(mux, "/refuse", s.Refuse)
	do(mux, "/door", s.Door)
	do(mux, "/flood-limit", s.FloodLimit)
	do(mux, "/ban", s.Ban)
	do(mux, "/kick", s.Kick)
	do(mux, "/close", s.Close)
	do(mux, "/cut", s.Cut)
	do(mux, "/cut-now", s.CutNow)
	do(mux, "/alter", s.Alter)
	do(mux, "/inject", s.Inject)
	do(mux, "/stall", s.Stall)
	do(mux, "/slow", s.Slow)
	do(mux, "/zombie", s.Zombie)
	do(mux, "/resume", s.Resume)
	do(mux, "/raw", s.Raw)
	do(mux, "/redis/stop", s.StopRedis)
	do(mux, "/redis/start", s.StartRedis)
	do(mux, "/token", s.Token)
	do(mux, "/log/clear", s.ClearLog)
	ask(mux, "/publish", s.Publish)
	ask(mux, "/trim", s.Trim)
	ask(mux, "/ask", s.Ask)
	mux.HandleFunc("GET /token", s.serveToken)
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Log()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodOptions {
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// do serves a control that answers {}.
func do[O any](mux *http.ServeMux, path string, control func(O) error) {
	ask(mux, path, func(o O) (struct{}, error) { return struct{}{}, control(o) })
}

// ask serves a control. Its errors are answered 400.
func ask[O, A any](mux *http.ServeMux, path string, control func(O) (A, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var o O
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil && !errors.Is(err, io.EOF) {
			http.Error(w, fmt.Sprintf("%s: %v", path, err), http.StatusBadRequest)
			return
		}
		a, err := control(o)
		if err != nil {
			http.Error(w, fmt.Sprintf("%s: %v", path, err), http.StatusBadRequest)
			return
		}
		answer(w, a)
	})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
