package faulttest

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/redistest"
)

// dial opens a connection as a user, and answers the close frame of the server. It
// returns the status of the answer.
func dial(t *testing.T, s *Server, user string) (*websocket.Conn, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, "ws://"+s.Config.Addr, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + user}},
	})
	switch {
	case res == nil:
		t.Fatalf("no answer to a handshake: %v", err)
	case err != nil:
		return nil, res.StatusCode
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	go func() {
		for {
			if _, _, err := ws.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	return ws, res.StatusCode
}

// placesAt counts the places that Redis holds, of all limits of the gate.
func placesAt(redis *redistest.Server) (n int64) {
	keys, _ := redis.Do("KEYS", "*~held").([]any)
	for _, key := range keys {
		n += redis.Do("ZCARD", key).(int64)
	}
	return n
}

// A server that is told to end leaves no place behind, however many connections it
// had: their users may connect to another server at once.
func TestShutdownReleasesAllPlaces(t *testing.T) {
	redis := redistest.Start(t)
	const user = 20
	config := Config{Redis: redis.URL(), Journal: filepath.Join(t.TempDir(), "journal"), Gate: GateConfig{MaxPerUser: user, Lease: 10 * time.Minute}}
	ends, stays := StartServer(t, config), StartServer(t, config)
	for range 3 {
		for i := range user {
			if _, status := dial(t, ends, "ann"); status != http.StatusSwitchingProtocols {
				t.Fatalf("connection %d is answered %d", i, status)
			}
		}
		for i := range 300 {
			dial(t, ends, fmt.Sprint("user", i))
		}
		if _, status := dial(t, stays, "ann"); status != http.StatusTooManyRequests {
			t.Fatalf("one connection too many is answered %d", status)
		}
		if err := ends.Terminate(); err != nil {
			t.Fatal(err)
		}
		if n := placesAt(redis); n != 0 {
			t.Errorf("%d places are held after the server has shut down", n)
		}
		ends.Run()
	}
}
