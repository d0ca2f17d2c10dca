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
		n += placesUnder(redis, key)
	}
	return n
}

// placesUnder counts those under a key whose lease is not over.
func placesUnder(redis *redistest.Server, key any) int64 {
	now := redis.Do("TIME").([]any)
	return redis.Do("ZCOUNT", key, fmt.Sprintf("(%s%06s", now...), "+inf").(int64)
}

// A server that is ended leaves no place behind, however many connections it
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

// A server that is killed and starts again releases what it held before, at once and
// not when the leases are over, and nothing else: neither what another server holds nor
// what a living one holds that has its name by mistake.
func TestRestartReleasesWhatWasHeld(t *testing.T) {
	redis := redistest.Start(t)
	config := func(instance string) Config {
		return Config{
			Redis: redis.URL(), Journal: filepath.Join(t.TempDir(), "journal"),
			Gate: GateConfig{Instance: instance, MaxPerUser: 3, Lease: 10 * time.Minute},
		}
	}
	crashes, stays, twin := StartServer(t, config("a")), StartServer(t, config("b")), StartServer(t, config("a"))
	enter := func(s *Server, user string, want int) {
		t.Helper()
		if _, status := dial(t, s, user); status != want {
			t.Fatalf("%s is answered %d, want %d", user, status, want)
		}
	}
	const in, refused = http.StatusSwitchingProtocols, http.StatusTooManyRequests
	for range 3 {
		enter(crashes, "ann", in)
		enter(stays, "bob", in)
		enter(twin, "eve", in)
	}
	for range 2 {
		crashes.Kill()
		enter(stays, "ann", refused)
		crashes.Run()
		redistest.Eventually(t, "the places of the killed server are free", func() bool { return usersPlaces(redis, "ann") == 0 })
		redistest.Eventually(t, "its notes are gone as well", func() bool {
			return placesUnder(redis, "wskit:gate/notes:a~held") <= 2 // the epochs of the living
		})
		for range 3 {
			enter(crashes, "ann", in)
		}
		enter(stays, "ann", refused)
		enter(crashes, "bob", refused)
		enter(crashes, "eve", refused)
	}

	// Nothing is left of any when all have ended in good order.
	for _, s := range []*Server{crashes, stays, twin} {
		if err := s.Terminate(); err != nil {
			t.Fatal(err)
		}
	}
	// That the killed ones were alive is known for some seconds more.
	redistest.Eventually(t, "neither places nor notes are left", func() bool { return placesAt(redis) == 0 })
}

// usersPlaces counts the places of a user.
func usersPlaces(redis *redistest.Server, user string) (n int64) {
	keys, _ := redis.Do("KEYS", "*open-user*:"+user+"~held").([]any)
	for _, key := range keys {
		n += placesUnder(redis, key)
	}
	return n
}
