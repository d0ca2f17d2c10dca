package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/poll"
	ports "github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/router"
)

// TestMain is a server where a test starts this binary as one.
func TestMain(m *testing.M) {
	if addr := os.Getenv("DOCS_TEST_SERVER"); addr != "" {
		if err := serve(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs a server until SIGTERM, and drains it. It answers the request "ip" with
// its own address; "hold" is answered after a GET of /release.
func serve(addr string) error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	released := make(chan struct{})
	r := router.New(router.Options{Liveness: router.Liveness{DrainWindow: -1}, RequestTimeout: -1})
	router.RPC(r, "ip", func(*router.Context, struct{}) (string, error) { return addr, nil })
	router.RPC(r, "hold", func(c *router.Context, _ struct{}) (string, error) {
		select {
		case <-released:
		case <-c.Done():
		}
		return "released", nil
	}, router.RouteOptions{Concurrent: true})
	mux := http.NewServeMux()
	mux.Handle("/", r)
	mux.HandleFunc("/release", func(http.ResponseWriter, *http.Request) { close(released) })
	server := &http.Server{Addr: addr, Handler: mux, ReadTimeout: hangGuard}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-stop.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		return err
	}
	return server.Shutdown(ctx)
}

// A process is such a server.
type process struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
	said *bytes.Buffer
	held *websocket.Conn // whose request is open while the server drains
}

// startProcess starts a server at a port that nothing takes while the server is down.
func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, addr: ports.FreeAddr(t)}
	p.start()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// start starts the process and waits until it serves.
func (p *process) start() {
	p.t.Helper()
	p.said = new(bytes.Buffer)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), "DOCS_TEST_SERVER="+p.addr)
	p.cmd.Stderr = p.said
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.until(http.StatusSwitchingProtocols)
}

// until waits until the server answers handshakes with a status.
func (p *process) until(status int) {
	p.t.Helper()
	poll.Until(p.t, fmt.Sprintf("%s to answer a handshake with %d", p.addr, status), func() bool {
		ws, res, err := websocket.Dial(p.t.Context(), "ws://"+p.addr, nil)
		if err == nil {
			_ = ws.CloseNow()
		}
		return res != nil && res.StatusCode == status
	})
}

// drain tells the server to shut down and waits until it refuses handshakes. It goes
// on draining until release.
func (p *process) drain() {
	p.t.Helper()
	status := 0
	if p.held, status = dial(p.t, p.addr, "127.0.0.1", 0); p.held == nil {
		p.t.Fatalf("%s answers a handshake with %d", p.addr, status)
	}
	if err := p.held.Write(p.t.Context(), websocket.MessageText, []byte(`{"type":"hold","meta":{"correlationId":"2"}}`)); err != nil {
		p.t.Fatal(err)
	}
	ask(p.t, p.held) // after which the request before it has begun
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.until(http.StatusServiceUnavailable)
}

// release lets the server end, and waits until it has.
func (p *process) release() {
	p.t.Helper()
	res, err := http.Get("http://" + p.addr + "/release")
	if err != nil {
		p.t.Fatal(err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for err == nil { // answers the server's close frame
		_, _, err = p.held.Read(p.t.Context())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%s: %v:\n%s", p.addr, err, p.said)
	}
}

// Two servers behind nginx are restarted one after the other, and their clients
// reconnect at once. No handshake is refused, while a server drains and while it is
// down; when it is back, it gets connections again.
func TestRollingRestartBehindNginx(t *testing.T) {
	servers := []*process{startProcess(t), startProcess(t)}
	nginx := startNginx(t, servers[0].addr, servers[1].addr)
	handshakes, stop := reconnecting(t, nginx, 20)
	defer stop()

	open := func(n int) (by map[string]int) { // new connections, by server
		t.Helper()
		by = make(map[string]int)
		for i := range n {
			ws, status := dial(t, nginx, "127.0.0.1", i)
			if ws == nil {
				t.Fatalf("a handshake is answered %d", status)
			}
			answer := ask(t, ws)
			ws.CloseRead(t.Context()) // answers the server's close frame
			for _, p := range servers {
				if strings.Contains(answer, p.addr) {
					by[p.addr]++
				}
			}
		}
		return by
	}
	for i, p := range servers {
		p.drain()
		if by := open(10); by[p.addr] > 0 {
			t.Errorf("server %d drains and gets %d connections", i, by[p.addr])
		}
		p.release()
		if by := open(10); by[p.addr] > 0 {
			t.Errorf("server %d is down and gets %d connections", i, by[p.addr])
		}
		p.start()
		if by := open(20); by[p.addr] < 20 { // the other has at least 40
			t.Errorf("server %d is back and gets %d of 20 new connections, want all", i, by[p.addr])
		}
	}
	stop()
	if n := handshakes.Load(); n < 40 {
		t.Errorf("%d handshakes of 20 clients are too few for two restarts", n)
	}
}

// reconnecting are clients that hold a connection each, and open another at once when
// it ends, until stop. A handshake that fails fails the test.
func reconnecting(t *testing.T, addr string, clients int) (handshakes *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running, first sync.WaitGroup
	handshakes = new(atomic.Int64)
	first.Add(clients)
	for range clients {
		running.Go(func() {
			connected := sync.OnceFunc(first.Done)
			defer connected()
			for ctx.Err() == nil {
				ws, res, err := websocket.Dial(ctx, "ws://"+addr, nil)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("a client that reconnects: %v (%v)", err, res)
					}
					return
				}
				handshakes.Add(1)
				connected()
				for err == nil {
					_, _, err = ws.Read(ctx)
				}
				_ = ws.CloseNow()
			}
		})
	}
	first.Wait()
	return handshakes, sync.OnceFunc(func() { cancel(); running.Wait() })
}
