package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

// phone is a client that reads what it is sent when the test asks for it.
type phone struct {
	t  *testing.T
	ws *websocket.Conn
}

func call(t *testing.T, s *Server, user string) *phone {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+s.Config.Addr, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &phone{t, ws}
}

func (p *phone) send(text string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hangGuard)
	defer cancel()
	if err := p.ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *phone) next() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hangGuard)
	defer cancel()
	_, frame, err := p.ws.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(frame)
}

func order(id string, ms int) string {
	return fmt.Sprintf(`{"type":"order","meta":{"correlationId":"1","idempotencyKey":%q},"payload":{"id":%q,"ms":%d}}`, id, id, ms)
}

func twoServers(t *testing.T, redis *redistest.Server, timeout time.Duration) (one, two *Server, handled func(id string) int) {
	c := testConfig(t, redis)
	c.ProcessTimeout = timeout
	return StartServer(t, c), StartServer(t, c), func(id string) int {
		text, err := os.ReadFile(c.Journal)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "order "+id+" ")
	}
}

func testConfig(t *testing.T, redis *redistest.Server) Config {
	return Config{
		Redis: redis.URL(), Journal: filepath.Join(t.TempDir(), "journal"), Gate: GateConfig{MaxPerUser: 1000},
		Places:         PlacesConfig{Lease: 2 * time.Second, Timeout: hangGuard},
		ProcessTimeout: 12 * time.Second, // a server that stands still for a while does not lose its members
		Timeout:        hangGuard / 2,
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}

// A message that is sent again to another server gets the first one's answer: after it, while
// it is handled on a connection that is broken, and after its server was killed. Only one whose
// server is killed while it handles it is handled again.
func TestIdempotencyAcrossServers(t *testing.T) {
	t.Parallel()
	redis, clock := redistest.StartWithClock(t)
	const timeout = time.Minute // the test does not wait for it, but sets the clock of Redis forward
	one, two, handled := twoServers(t, redis, timeout)

	p, q := call(t, one, "ann"), call(t, two, "ann")
	p.send(order("a", 0))
	answer := p.next()
	q.send(order("a", 0))
	if again := q.next(); again != answer || handled("a") != 1 {
		t.Errorf("%s, and again %s; handled %d times", answer, again, handled("a"))
	}

	p.send(order("b", 700))
	eventually(t, "it is handled", func() bool { return handled("b") == 1 })
	_ = p.ws.CloseNow()
	q.send(order("b", 700))
	again := q.next()
	want := strings.Replace(answer, `"id":"a"`, `"id":"b"`, 1) // by the same process
	if again != want || handled("b") != 1 {
		t.Errorf("after a broken connection: %s, not %s; handled %d times", again, want, handled("b"))
	}

	p = call(t, one, "ann")
	p.send(order("c", 60_000))
	eventually(t, "it is handled", func() bool { return handled("c") == 1 })
	one.Kill()
	q.send(order("a", 0))
	if again := q.next(); again != answer || handled("a") != 1 {
		t.Errorf("after its server was killed: %s; handled %d times", again, handled("a"))
	}
	calls := redis.Calls("evalsha")
	q.send(order("c", 60_000)) // waits for the killed server
	eventually(t, "it asks again and again", func() bool { return redis.Calls("evalsha") > calls+3 })
	clock.Step(timeout)
	if answer := q.next(); !strings.Contains(answer, `"ABORTED"`) {
		t.Errorf("a request that waited for a killed server: %s", answer)
	}
	q.send(order("c", 60_000))
	eventually(t, "it is handled again", func() bool { return handled("c") == 2 })
}

// Users whose server is killed leave, once, and those that also have a connection to another
// server stay: within the process timeout. They join again, once.
func TestPresenceOfAKilledServer(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	const timeout = 12 * time.Second
	one, two, _ := twoServers(t, redis, timeout)
	const watch = `{"type":"watch","meta":{"correlationId":"1"},"payload":{"topic":"room"}}`
	join := func(p *phone) { p.send(strings.Replace(watch, "watch", "join", 1)) }

	eve := call(t, two, "eve")
	eve.send(watch)
	known, log := map[string]bool{}, []string{}
	frame := func() {
		t.Helper()
		type user struct{ User string }
		var m struct {
			Type    string
			Payload struct{ Members, Joined, Left []user }
		}
		text := eve.next()
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		switch m.Type {
		case "watch.reply":
			return
		case "$ws:presence":
		default:
			t.Fatalf("got %s", text)
		}
		for _, u := range append(m.Payload.Members, m.Payload.Joined...) {
			known[u.User] = true
			log = append(log, "+"+u.User)
		}
		for _, u := range m.Payload.Left {
			delete(known, u.User)
			log = append(log, "-"+u.User)
		}
	}
	becomes := func(users ...string) {
		t.Helper()
		for {
			var have []string
			for u := range known {
				have = append(have, u)
			}
			slices.Sort(have)
			if slices.Equal(have, users) {
				return
			}
			frame()
		}
	}
	becomes("eve")
	for _, user := range []string{"ann", "ann", "bob", "bob"} {
		join(call(t, one, user))
	}
	join(call(t, two, "bob"))
	becomes("ann", "bob", "eve")
	killed := redis.Now()
	one.Kill()
	becomes("bob", "eve")
	const stands = 3 * time.Second // for as long as all processes of a test may be stopped meanwhile
	if took := redis.Now().Sub(killed); took > timeout+stands {
		t.Errorf("they left %v after their server was killed", took)
	}
	one.Run()
	join(call(t, one, "ann"))
	becomes("ann", "bob", "eve")
	if got := strings.Join(log, " "); strings.Count(got, "ann") != 3 || strings.Count(got, "bob") != 1 || strings.Count(got, "eve") != 1 {
		t.Errorf("sent were %s", got)
	}
}
