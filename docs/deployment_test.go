package docs_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// The code of deployment.md.

func start(r *router.Router) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	return serveUntil(ctx, listener, r)
}

// serveUntil serves until ctx is done, lets handlers finish, and sends clients to other servers.
func serveUntil(ctx context.Context, listener net.Listener, r *router.Router) error {
	var draining atomic.Bool
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done(): // SIGTERM
	}
	draining.Store(true)
	deadline, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(r.Shutdown(deadline), server.Shutdown(deadline)) // the router first
}

// A server that is told to end is not ready any more, answers what it is handling, and sends its client away.
func TestDeploymentPage(t *testing.T) {
	_ = start // which listens on a port that may be another program's
	begun, finish := make(chan struct{}), make(chan struct{})
	r := router.New(router.Options{Logger: slog.New(slog.DiscardHandler)})
	router.RPC(r, "work", func(*router.Context, struct{}) (string, error) {
		close(begun)
		<-finish
		return "done", nil
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	ctx, terminate := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, listener, r) }()
	ready := func() int {
		res, err := http.Get("http://" + addr + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
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
	poll.Until(t, hangGuard, "not ready", func() bool { return ready() == http.StatusServiceUnavailable })
	if _, res, err := websocket.Dial(t.Context(), "ws://"+addr+"/ws", nil); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new connection: %v, %v", res, err)
	}
	close(finish)
	if _, answer, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(answer), `"done"`) {
		t.Errorf("the answer: %s, %v", answer, err)
	}
	var end websocket.CloseError
	if _, _, err := ws.Read(t.Context()); !errorsAs(err, &end) || end.Code != 1001 || !strings.Contains(end.Reason, "retryAfterMs") {
		t.Errorf("the end: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func errorsAs(err error, target *websocket.CloseError) bool {
	found, ok := errors.AsType[websocket.CloseError](err)
	*target = found
	return ok
}

// The times on the page fit together: each system waits longer than what it waits for.
func TestDeploymentPageTimes(t *testing.T) {
	page := read(t, "deployment.md")
	seconds := func(pattern string) int {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("the page has no %s", pattern)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	drain := seconds(`WithTimeout\(context\.Background\(\), (\d+)\*time\.Second\)`)
	if stop := seconds(`TimeoutStopSec=(\d+)`); stop <= drain {
		t.Errorf("systemd kills the server after %d s, and it needs up to %d", stop, drain)
	}
	preStop, grace := seconds(`sleep: \{ seconds: (\d+) \}`), seconds(`terminationGracePeriodSeconds: (\d+)`)
	if grace <= preStop+drain {
		t.Errorf("Kubernetes kills the server after %d s, and it needs up to %d", grace, preStop+drain)
	}
	period := seconds(`periodSeconds: (\d+)`)
	if preStop < period {
		t.Errorf("new connections stop after up to %d s, and the server refuses them after %d", period, preStop)
	}
	nginx := regexp.MustCompile(`proxy_read_timeout (\d+)s`).FindStringSubmatch(read(t, "nginx.conf"))
	if idle, err := strconv.Atoi(nginx[1]); err != nil || idle <= 25 {
		t.Errorf("nginx ends silent connections after %d s, before the ping at 25", idle)
	}
}
