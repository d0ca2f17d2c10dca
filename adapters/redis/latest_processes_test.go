package redis_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
)

const latestUsers = 10

// moved is a position, as large as a picture's thumbnail.
type moved struct {
	User int    `json:"user"`
	N    int    `json:"n"`
	Fill string `json:"fill"`
}

func publishPositions(ctx context.Context, r *router.Router, n int) error {
	for user := range latestUsers {
		if err := r.Publish(ctx, "map", "moved", moved{user, n, strings.Repeat("x", 1<<10)}, router.PublishOptions{
			Overflow: router.OverflowLatestOnly, Key: fmt.Sprint("user ", user),
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestLatestProcess is the child of TestLatestByKeyOfTwoProcesses: it publishes until it is
// killed.
func TestLatestProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_TEST_LATEST")
	if addr == "" {
		t.Skip("run by TestLatestByKeyOfTwoProcesses")
	}
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	r := router.New(router.Options{Backend: adapters.Backend{Broker: redis.NewBroker(client)}})
	for n := 0; ; n++ {
		_ = publishPositions(context.Background(), r, n) // it fails while Redis stands still; others follow
	}
}

// A client that does not read has the latest position of each user waiting, whichever
// process has published it, and no more: what the other process publishes replaces what
// was left by one that was killed.
func TestLatestByKeyOfTwoProcesses(t *testing.T) {
	s := redistest.Start(t)
	conns := make(chan *router.Conn, 1)
	lost := make(chan struct{}, 1)
	r := router.New(router.Options{
		Backend: adapters.Backend{Broker: newBroker(t, s, redis.BrokerOptions{})},
		OnLost: func([]string) {
			select {
			case lost <- struct{}{}:
			default:
			}
		},
		OnOpen: func(c *router.Conn) error {
			conns <- c
			return c.Subscribe(context.Background(), "map")
		},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: r, ReadHeaderTimeout: patience}
	go func() { _ = web.Serve(ln) }()
	t.Cleanup(func() {
		shut, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = r.Shutdown(shut)
		_ = web.Close()
	})
	ctx := t.Context()
	ws, _, err := websocket.Dial(ctx, "ws://"+ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	conn := <-conns

	child := exec.Command(os.Args[0], "-test.run=^TestLatestProcess$")
	child.Env = append(os.Environ(), "WSKIT_TEST_LATEST="+s.Addr)
	process.DieWithParent(child)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	fits := func() {
		t.Helper()
		if queued := conn.Queued(); queued > 2*latestUsers*1200 {
			t.Errorf("%d bytes wait for the client", queued)
		}
	}
	eventually(t, "positions are replaced while the client does not read", func() bool {
		fits()
		return r.Stats().FramesDropped > 20*latestUsers
	})
	_ = child.Process.Kill()
	_ = child.Wait()

	const last = 1 << 30 // no process gets that far
	if err := publishPositions(ctx, r, last); err != nil {
		t.Fatal(err)
	}
	fits()
	// The child publishes more than this process may be able to take. What it has lost of it is published again.
	again, stop := context.WithCancel(ctx)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for {
			select {
			case <-lost:
				_ = publishPositions(again, r, last)
			case <-again.Done():
				return
			}
		}
	})
	defer publishing.Wait()
	defer stop()
	latest := make([]int, latestUsers)
	for done := 0; done < latestUsers; {
		_, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Payload moved `json:"payload"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if m.Payload.N < latest[m.Payload.User] {
			t.Fatalf("user %d: position %d after %d", m.Payload.User, m.Payload.N, latest[m.Payload.User])
		}
		if latest[m.Payload.User] = m.Payload.N; m.Payload.N == last {
			done++
		}
	}
}
