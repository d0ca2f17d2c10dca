package router_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// crowdSize is the number of connections that come and go in these tests.
const crowdSize = 3000

// crowdServer is set in a process that plays the clients: a process has not enough
// descriptors for both ends.
const crowdServer = "WSKIT_TEST_CROWD_SERVER"

// Thousands of clients are drained: each close frame says when to reconnect, spread evenly over 6 s,
// and each open request is answered first.
func TestDrainOfThousands(t *testing.T) {
	if addr := os.Getenv(crowdServer); addr != "" {
		playCrowd(t, addr)
		return
	}
	release := make(chan struct{})
	var waiting atomic.Int64
	// The clients answer no pings, and how long it takes until all have come is not known.
	r := router.New(router.Options{RequestTimeout: -1, Liveness: router.Liveness{PingInterval: -1}})
	router.RPC(r, "wait", func(c *router.Context, _ struct{}) (said, error) {
		waiting.Add(1)
		select {
		case <-release:
		case <-c.Done():
		}
		return said{"done"}, c.Err()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	crowd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	crowd.Env = append(os.Environ(), crowdServer+"="+listener.Addr().String())
	out, err := crowd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	crowd.Stderr = os.Stderr
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var report strings.Builder
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
			fmt.Fprintln(&report, lines.Text())
		}
		t.Fatalf("the clients never said %q:\n%s", want, report.String())
	}
	await("crowd is there")
	// A client has its 101 a moment before it counts, and its request is read some time after it was sent.
	poll.Until(t, "all connections to count", func() bool {
		return r.Stats().Connections == crowdSize && waiting.Load() == crowdSize/100
	})

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(ctx) }()
	poll.Until(t, "the idle connections to be closed", func() bool { return r.Stats().Connections == crowdSize/100 })
	close(release)
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	await("crowd was drained")
	_, _ = io.Copy(&report, out)
	if err := crowd.Wait(); err != nil {
		t.Errorf("the clients: %v\n%s", err, report.String())
	}
	if s := r.Stats(); s.Connections != 0 || s.FramesDropped != 0 {
		t.Errorf("after the drain: %+v", s)
	}
}

// playCrowd is the other end: every hundredth client has a request open.
func playCrowd(t *testing.T, addr string) {
	var mu sync.Mutex
	var seconds [crowdSize / 500]int // the clients that are to reconnect in each second
	answered := 0
	var arrived, gone sync.WaitGroup
	arrived.Add(crowdSize)
	throttle := make(chan struct{}, 64) // the listen queue is short
	for i := range crowdSize {
		throttle <- struct{}{}
		gone.Go(func() {
			nc, br, err := enter(addr)
			<-throttle
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				arrived.Done()
				return
			}
			defer nc.Close()
			busy := i%100 == 0
			if busy {
				_, _ = nc.Write(textFrame(`{"type":"wait","meta":{"correlationId":"w"}}`))
			}
			arrived.Done()
			reply := false
			for {
				op, payload, err := readServerFrame(br)
				if err != nil {
					t.Errorf("client %d: %v before it was sent", i, err)
					return
				}
				switch op {
				case opText:
					reply = strings.Contains(string(payload), "done")
				case opClose:
					var hint struct{ RetryAfterMs *int64 }
					code := int(payload[0])<<8 | int(payload[1])
					if err := json.Unmarshal(payload[2:], &hint); err != nil || code != 1001 || hint.RetryAfterMs == nil {
						t.Errorf("client %d: closed with %d %s", i, code, payload[2:])
						return
					}
					_, _ = nc.Write(closing(1001, ""))
					mu.Lock()
					defer mu.Unlock()
					if s := (*hint.RetryAfterMs - 1) / 1000; s < int64(len(seconds)) { // it is rounded up
						seconds[max(0, s)]++
					} else {
						t.Errorf("client %d is to reconnect after %d ms, want %d s at most", i, *hint.RetryAfterMs, len(seconds))
					}
					if busy && reply {
						answered++
					}
					return
				}
			}
		})
	}
	arrived.Wait()
	fmt.Println("crowd is there")
	gone.Wait()
	// By chance a second has 22 more or less than 500, and hardly ever 200.
	if slices.Min(seconds[:]) < 300 || slices.Max(seconds[:]) > 700 {
		t.Errorf("the clients that are to reconnect in each second: %v, want about 500", seconds)
	}
	if answered != crowdSize/100 {
		t.Errorf("%d open requests were answered, want %d", answered, crowdSize/100)
	}
	fmt.Println("crowd was drained")
}

// enter opens a connection without what a client library would cost.
func enter(addr string) (net.Conn, *bufio.Reader, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(nc, "GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	br := bufio.NewReaderSize(nc, 512)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, nil, fmt.Errorf("refused: %s", res.Status)
	}
	return nc, br, nil
}

// readServerFrame reads one small frame.
func readServerFrame(br *bufio.Reader) (opcode byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, head[1])
	_, err = io.ReadFull(br, payload)
	return head[0] & 0xF, payload, err
}
