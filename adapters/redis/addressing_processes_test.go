package redis_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
)

// addressingRouter is what the processes of these tests serve. What the handler of "note" gets is counted in
// Redis.
func addressingRouter(client goredis.UniversalClient, broker redis.Broker) *router.Router {
	r := router.New(router.Options{
		Backend:    adapters.Backend{Broker: broker, ProcessTimeout: 2 * time.Second},
		Addressing: router.AddressingOptions{Enabled: true, Timeout: 3 * time.Second},
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{Tenant: "acme", User: req.URL.Query().Get("user")}, nil
		},
		OnOpen: func(c *router.Conn) error { return c.Send("open", c.ID()) },
	})
	addRights(r)
	router.On(r, "note", func(c *router.Context, _ struct{}) error { return client.Incr(c, "notes").Err() })
	return r
}

func redisAt(addrs string) goredis.UniversalClient {
	if list := strings.Split(addrs, ","); len(list) > 1 {
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: list, ContextTimeoutEnabled: true})
	}
	return goredis.NewClient(&goredis.Options{Addr: addrs, ContextTimeoutEnabled: true})
}

// TestAddressingProcess is the other process of the tests below.
func TestAddressingProcess(t *testing.T) {
	addrs := os.Getenv("WSKIT_TEST_ADDRESSING")
	if addrs == "" {
		t.Skip("run by TestAddressing…")
	}
	client := redisAt(addrs)
	web := &http.Server{Handler: addressingRouter(client, redis.NewBroker(client)), ReadHeaderTimeout: patience}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RPush(ctx, "servers", ln.Addr().String()).Err(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nserving")
	_ = web.Serve(ln)
}

// fleetTest is this process and others, each with a server.
type fleetTest struct {
	*testing.T
	r        *router.Router
	client   goredis.UniversalClient
	addrs    []string
	children []*exec.Cmd
}

func startFleet(t *testing.T, redisAddrs string, children int) *fleetTest {
	return startFleetBehind(t, redisAddrs, redisAddrs, children)
}

// startFleetBehind is startFleet with a way of its own for this process.
func startFleetBehind(t *testing.T, own, redisAddrs string, children int) *fleetTest {
	client := redisAt(own)
	t.Cleanup(func() { _ = client.Close() })
	broker := redis.NewBroker(client)
	t.Cleanup(func() { _ = broker.Close() })
	f := &fleetTest{T: t, client: client, r: addressingRouter(client, broker)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: f.r, ReadHeaderTimeout: patience}
	go func() { _ = web.Serve(ln) }()
	t.Cleanup(func() {
		shut, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = f.r.Shutdown(shut)
		_ = web.Close()
	})
	f.addrs = append(f.addrs, ln.Addr().String())
	for range children {
		f.children = append(f.children, process.StartTest(t, "TestAddressingProcess", "WSKIT_TEST_ADDRESSING="+redisAddrs, "serving"))
	}
	others, err := client.LRange(ctx, "servers", 0, -1).Result()
	if err != nil || len(others) != children {
		t.Fatalf("the servers are %v, %v", others, err)
	}
	f.addrs = append(f.addrs, others...)
	return f
}

// fleetClient is a client of one of the servers.
type fleetClient struct {
	*fleetTest
	ws *websocket.Conn
	id string
}

func (f *fleetTest) dial(server int, user string) (*fleetClient, error) {
	within, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(within, "ws://"+f.addrs[server]+"?user="+user, nil)
	if err != nil {
		return nil, err
	}
	f.Cleanup(func() { _ = ws.CloseNow() })
	c := &fleetClient{fleetTest: f, ws: ws}
	got, err := c.read()
	c.id = strings.TrimSuffix(strings.TrimPrefix(got, `{"type":"open","payload":"`), `"}`)
	return c, err
}

func (f *fleetTest) mustDial(server int, user string) *fleetClient {
	f.Helper()
	c, err := f.dial(server, user)
	if err != nil {
		f.Fatalf("a client of server %d: %v", server, err)
	}
	return c
}

func (c *fleetClient) read() (string, error) {
	within, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	_, b, err := c.ws.Read(within)
	return string(b), err
}

func (c *fleetClient) expect(want string) {
	c.Helper()
	if got, err := c.read(); err != nil || got != want {
		c.Fatalf("a client got %s, %v; want %s", got, err, want)
	}
}

// user is the target of most tests.
func (f *fleetTest) user(name string) router.Target { return f.r.User("acme", name) }

// count counts the connections of a target: the number is one of those that are right, or the error is UNAVAILABLE,
// and the answer comes although nothing ends the context.
func (f *fleetTest) count(to router.Target, right ...int) (n int, err error) {
	f.Helper()
	within, cancel := context.WithTimeout(ctx, poll.Guard)
	defer cancel()
	if n, err = to.Count(within); within.Err() != nil {
		f.Fatal("Count does not end by itself")
	}
	switch {
	case err != nil && errors.CodeOf(err) != errors.Unavailable:
		f.Fatalf("Count: %v", err)
	case err == nil && !slices.Contains(right, n):
		f.Fatalf("Count returned %d; right would be %v", n, right)
	}
	return n, err
}

// until counts until the number is there. Until then it is one that is right, or unknown.
func (f *fleetTest) until(what string, to router.Target, want int, right ...int) {
	f.Helper()
	eventually(f.T, what, func() bool {
		n, err := f.count(to, append(right, want)...)
		return err == nil && n == want
	})
}

func (f *fleetTest) notes() int64 {
	n, err := f.client.Get(ctx, "notes").Int64()
	if err != nil && err != goredis.Nil {
		f.Fatal(err)
	}
	return n
}

// addressEverything is what works in every deployment.
func addressEverything(t *testing.T, f *fleetTest) {
	ann0, ann1, bob := f.mustDial(0, "ann"), f.mustDial(1, "ann"), f.mustDial(1, "bob")
	f.until("ann's connections are counted", f.user("ann"), 2)
	f.until("all connections are counted", f.r.AllConnections(), 3)
	f.until("one is counted", f.r.Connection(bob.id), 1)
	list, err := f.user("ann").List(ctx)
	if err != nil || len(list) != 2 || list[0].ID != ann0.id || list[1].ID != ann1.id || list[1].User != "ann" || list[1].Tenant != "acme" {
		t.Errorf("List: %+v, %v", list, err)
	}
	for what, to := range map[string]struct {
		router.Target
		clients []*fleetClient
	}{
		"user":       {f.user("ann"), []*fleetClient{ann0, ann1}},
		"all":        {f.r.AllConnections(), []*fleetClient{ann0, ann1, bob}},
		"connection": {f.r.Connection(bob.id), []*fleetClient{bob}},
		"others":     {f.user("ann").Except(ann0.id), []*fleetClient{ann1}},
	} {
		if err := to.Send(ctx, "news", what); err != nil {
			t.Errorf("sending to %s: %v", what, err)
		}
		for _, c := range to.clients {
			c.expect(`{"type":"news","payload":"` + what + `"}`)
		}
	}
	// In a room, and out of it.
	say := func(text string) {
		if err := f.r.Publish(ctx, "room", "said", text); err != nil {
			t.Errorf("publishing: %v", err)
		}
	}
	if n, err := f.user("ann").Subscribe(ctx, "room"); err != nil || n != 2 {
		t.Errorf("Subscribe: %d, %v", n, err)
	}
	say("hi")
	ann0.expect(`{"type":"said","payload":"hi"}`)
	ann1.expect(`{"type":"said","payload":"hi"}`)
	if n, err := f.user("ann").Unsubscribe(ctx, "room"); err != nil || n != 2 {
		t.Errorf("Unsubscribe: %d, %v", n, err)
	}
	say("to nobody")
	ann0.expect(`{"type":"$ws:unsubscribed","payload":{"topic":"room"}}`)
	ann1.expect(`{"type":"$ws:unsubscribed","payload":{"topic":"room"}}`)
	for _, to := range []struct {
		router.Target
		n      int
		client *fleetClient
	}{
		{f.user("ann").Except(ann0.id), 1, ann1},
		{f.r.Connection(bob.id), 1, bob},
		{f.r.AllConnections(), 1, ann0},
	} {
		n, err := to.Close(ctx, 4001, "kicked")
		if err != nil || n != to.n {
			t.Errorf("Close: %d, %v", n, err)
		}
		_ = to.client.ws.Write(ctx, websocket.MessageText, []byte(`{"type":"note"}`))
		_, err = to.client.read()
		if closed, ok := errors.AsType[websocket.CloseError](err); !ok || closed.Code != 4001 || closed.Reason != "kicked" {
			t.Errorf("the client got %v", err)
		}
	}
	if n, err := f.r.AllConnections().Count(ctx); err != nil || n != 0 {
		t.Errorf("after all were closed: %d, %v", n, err)
	}
	if n := f.notes(); n != 0 {
		t.Errorf("%d messages after Close had returned were handled", n)
	}
}

func TestAddressingTwoProcesses(t *testing.T) {
	s := redistest.Start(t)
	f := startFleet(t, s.Addr, 1)
	addressEverything(t, f)
	// One subscription of a user for each process, and three for the process.
	f.mustDial(0, "ann")
	f.mustDial(0, "ann")
	f.mustDial(1, "ann")
	eventually(t, "the subscriptions of users that have left are gone", func() bool {
		users, processes := 0, 0
		for _, name := range topics(s) {
			if !strings.Contains(name, "$ws:user:") {
				processes++
			} else if numbers := s.Do("PUBSUB", "NUMSUB", name).([]any); numbers[1] == int64(2) {
				users++
			} else {
				return false
			}
		}
		return users == 1 && processes == 5 // all connections, all processes, one for each process, and revocations
	})
}

func TestAddressingInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	addressEverything(t, startFleet(t, strings.Join(c.Addrs(), ","), 1))
}

// What is counted after a process was killed is right, or unknown for a time.
func TestAddressingOverAKilledProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := startFleet(t, s.Addr, 2)
	f.mustDial(0, "ann")
	there := f.mustDial(1, "ann")
	f.mustDial(2, "ann")
	f.until("all are counted", f.user("ann"), 3)
	_ = f.children[0].Process.Kill()
	_ = f.children[0].Wait()
	if n, err := f.r.Connection(there.id).Close(ctx, 4001, ""); err == nil && n != 0 {
		t.Errorf("%d connections of a killed process were closed", n)
	}
	f.until("the others are counted", f.user("ann"), 2)
	f.until("its connection is gone", f.r.Connection(there.id), 0)
	eventually(t, "the others are closed", func() bool {
		_, err := f.user("ann").Close(ctx, 4001, "")
		return err == nil
	})
	f.until("none is left", f.r.AllConnections(), 0)
}

// The connections of a process that was stopped are open: they are never left out.
func TestAddressingOverAStoppedProcess(t *testing.T) {
	s := redistest.Start(t)
	f := startFleet(t, s.Addr, 1)
	f.mustDial(0, "ann")
	there := f.mustDial(1, "ann")
	f.until("both are counted", f.user("ann"), 2)
	if err := process.Stop(f.children[0].Process); err != nil {
		t.Fatal(err)
	}
	for range 2 { // each call waits for Timeout, which is longer than ProcessTimeout
		if _, err := f.count(f.user("ann")); err == nil {
			t.Fatal("Count counts what a stopped process has")
		}
		if _, err := f.r.Connection(there.id).Close(ctx, 4001, ""); errors.CodeOf(err) != errors.Unavailable {
			t.Fatalf("closing a connection of a stopped process: %v", err)
		}
	}
	if err := process.Continue(f.children[0].Process); err != nil {
		t.Fatal(err)
	}
	f.until("the closing has arrived", f.user("ann"), 1, 2)
}

// While Redis does not answer nothing is reached, and nothing is wrong.
func TestAddressingWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := startFleet(t, s.Addr, 1)
	ann0, ann1 := f.mustDial(0, "ann"), f.mustDial(1, "ann")
	f.until("both are counted", f.user("ann"), 2)

	away := func(stranger string) {
		if _, err := f.count(f.user("ann")); err == nil {
			t.Fatal("Count works without Redis")
		}
		if err := f.user("ann").Send(ctx, "news", "lost"); errors.CodeOf(err) != errors.Unavailable {
			t.Fatalf("Send without Redis: %v", err)
		}
		if _, err := f.r.Connection(ann1.id).Close(ctx, 4001, ""); errors.CodeOf(err) != errors.Unavailable {
			t.Fatalf("Close without Redis: %v", err)
		}
		_, err := f.dial(0, stranger)
		if closed, ok := errors.AsType[websocket.CloseError](err); !ok || closed.Code != 1013 || !strings.HasPrefix(closed.Reason, `{"retryAfterMs":`) {
			t.Errorf("a connection that cannot be addressed is opened: %v", err)
		}
	}
	back := func() {
		f.until("both are counted again", f.user("ann"), 2)
		eventually(t, "sending works", func() bool { return f.user("ann").Send(ctx, "news", "back") == nil })
		for _, c := range []*fleetClient{ann0, ann1} {
			eventually(t, "it arrives", func() bool {
				got, err := c.read()
				if err != nil {
					t.Fatal(err)
				}
				return got == `{"type":"news","payload":"back"}`
			})
		}
		f.mustDial(0, "carl")
	}
	s.Stall()
	away("dora")
	s.Resume()
	back()
	s.Kill()
	away("emil")
	s.Run()
	back()
	for range 3 { // a restart so short that hardly anything fails
		s.Kill()
		s.Run()
		back()
	}
}
