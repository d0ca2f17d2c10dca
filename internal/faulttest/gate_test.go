package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/redistest"
)

// dial opens a connection as a user, and answers the close frame of the server. It
// returns the status of the answer.
func dial(t *testing.T, s *Server, user string) (*websocket.Conn, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
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

// placesAt counts the leases in Redis, of all limits of the gate.
func placesAt(redis *redistest.Server) (n int64) {
	keys, _ := redis.Do("KEYS", "*~held").([]any)
	for _, key := range keys {
		n += placesUnder(redis, key)
	}
	return n
}

// placesUnder counts the leases under a key that have not expired.
func placesUnder(redis *redistest.Server, key any) int64 {
	return redis.Do("ZCOUNT", key, fmt.Sprintf("(%d", redis.Now().UnixMicro()), "+inf").(int64)
}

// A server that shuts down releases the leases of all its connections: their users may
// connect to another server at once.
func TestShutdownReleasesAllPlaces(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	const user = 20
	config := Config{Redis: redis.URL(), Journal: filepath.Join(t.TempDir(), "journal"), ProcessTimeout: 10 * time.Minute, Gate: GateConfig{MaxPerUser: user}}
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
			t.Fatalf("a connection over the limit is answered %d", status)
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

// A server that is killed and starts again releases its old leases at once, before they
// expire. It releases no others: neither those of another server, nor those of a running
// server that has the same name by mistake.
func TestRestartReleasesWhatWasHeld(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := func(instance string) Config {
		return Config{
			Redis: redis.URL(), Journal: filepath.Join(t.TempDir(), "journal"),
			ProcessTimeout: 10 * time.Minute, Gate: GateConfig{Instance: instance, MaxPerUser: 3},
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
		for _, limit := range []string{"open-ip", "open-user", "open-total"} {
			redistest.Eventually(t, "its notes are gone as well", func() bool {
				return placesUnder(redis, "wskit:gate/"+limit+"/notes:a~held") <= 2 // the epochs of the running servers
			})
		}
		for range 3 {
			enter(crashes, "ann", in)
		}
		enter(stays, "ann", refused)
		enter(crashes, "bob", refused)
		enter(crashes, "eve", refused)
	}

	// Nothing is left when all servers have shut down.
	for _, s := range []*Server{crashes, stays, twin} {
		if err := s.Terminate(); err != nil {
			t.Fatal(err)
		}
	}
	// The notes of the killed servers expire some seconds later.
	redistest.Eventually(t, "no places and no notes are left", func() bool { return placesAt(redis) == 0 })
}

// Whatever has happened to servers, Redis, its network and handshakes, no place is lost: when all clients have gone,
// as many can connect as before.
func TestNoPlaceIsLost(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr)
	const total, users = 12, 4
	var servers []*Server
	for i, addr := range []string{redis.Addr, proxy.Addr} {
		servers = append(servers, StartServer(t, Config{
			Redis: "redis://" + addr, Journal: filepath.Join(t.TempDir(), "journal"), ProcessTimeout: 2 * time.Second,
			Gate: GateConfig{Instance: fmt.Sprint("server", i), MaxPerUser: total / users, MaxTotal: total},
		}))
	}
	var clients []*websocket.Conn
	arrive := func(i int, user string) {
		if ws, status := dial(t, servers[i%2], user); status == http.StatusSwitchingProtocols {
			clients = append(clients, ws)
		}
	}
	come := func(n int) {
		for i := range n {
			arrive(i, fmt.Sprint("user", i%users))
		}
	}
	leave := func() {
		for _, ws := range clients {
			_ = ws.CloseNow()
		}
		clients = nil
	}
	// abort sends handshakes and closes their connections at once.
	abort := func(n int) {
		for i := range n {
			c, err := net.Dial("tcp", servers[i%2].Config.Addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer user0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\n\r\n")
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}
	faults := []func(){
		func() { abort(40) },
		func() { // too many of one user, which is seen when there is a place for the connection
			leave()
			for i := range total {
				arrive(i, "user0")
			}
		},
		func() { redis.Stall(); abort(10); redis.Resume() },
		func() { redis.Stall(); leave(); redis.Resume() },
		func() { proxy.Cut(); come(4); leave(); abort(4); proxy.Mend() },
		func() { proxy.Mute(); abort(4); come(2); proxy.Mend() },
		func() { proxy.CutAfter(2000); come(4); leave(); proxy.Mend() },
		func() { servers[0].Kill(); servers[0].Run() },
		func() { servers[1].Stall(); redis.Do("CLIENT", "KILL", "TYPE", "normal"); servers[1].Resume() },
	}
	for _, i := range rand.Perm(len(faults)) {
		come(total)
		faults[i]()
		leave()
	}
	redistest.Eventually(t, "all places are free", func() bool {
		keys, _ := redis.Do("KEYS", "*~held").([]any)
		for _, key := range keys { // but those that say which servers run
			if name := key.(string); !strings.Contains(name, "/notes:") && !strings.Contains(name, "/alive:") && placesUnder(redis, key) > 0 {
				return false
			}
		}
		return true
	})
	redistest.Eventually(t, "as many connect as may", func() bool {
		come(total)
		defer leave()
		return len(clients) == total
	})
}

// usersPlaces counts the leases of a user.
func usersPlaces(redis *redistest.Server, user string) (n int64) {
	keys, _ := redis.Do("KEYS", "*open-user*:"+user+"~held").([]any)
	for _, key := range keys {
		n += placesUnder(redis, key)
	}
	return n
}
