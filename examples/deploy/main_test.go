package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// A server that is being stopped is not ready any more, answers what it is handling, and sends its client away.
func TestServeUntil(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	r := router.New(router.Options{Logger: slog.New(slog.DiscardHandler)})
	router.RPC(r, "work", func(*router.Context, struct{}) (string, error) {
		close(begun)
		<-finish
		return "done", nil
	})
	server, listening := newServer("127.0.0.1:0", r), make(chan string, 1)
	server.BaseContext = func(l net.Listener) context.Context {
		listening <- l.Addr().String()
		return context.Background()
	}
	ctx, terminate := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(ctx, server) }()
	addr := <-listening
	ready := func() int { return get(t, "http://"+addr+"/ready") }
	if got := ready(); got != http.StatusOK {
		t.Errorf("ready: %d", got)
	}
	ws, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"work","meta":{"correlationId":"1"}}`)); err != nil {
		t.Fatal(err)
	}
	<-begun
	terminate()
	poll.Until(t, "not ready", func() bool { return ready() == http.StatusServiceUnavailable })
	if _, res, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", nil); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new connection: %v, %v", res, err)
	}
	close(finish)
	if _, answer, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(answer), `"done"`) {
		t.Errorf("the answer: %s, %v", answer, err)
	}
	_, _, err = ws.Read(t.Context())
	sentAway(t, err)
	http.DefaultClient.CloseIdleConnections()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// sentAway checks that err is the end of a connection by a server that is being stopped.
func sentAway(t *testing.T, err error) {
	t.Helper()
	end, ok := errors.AsType[websocket.CloseError](err)
	if !ok || end.Code != websocket.StatusGoingAway || !strings.Contains(end.Reason, "retryAfterMs") {
		t.Errorf("the connection ends with %v, want 1001 and a time to reconnect", err)
	}
}

// get returns the status of an answer.
func get(t *testing.T, url string) int {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}
