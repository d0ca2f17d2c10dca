package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
)

// TestProcess is a server of the test below.
func TestProcess(t *testing.T) {
	url := os.Getenv("WSKIT_TEST_API")
	if url == "" {
		t.Skip("run by TestServersAreKilledDuringCalls")
	}
	backend := redistest.Open(t, url, redis.Options{})
	r := router.New(router.Options{Backend: backend})
	r.History("orders", router.HistoryOptions{Messages: 10_000})
	router.Declare[paid](r, "order.paid")
	h := api.Handler(r, api.Options{
		Authorize:   api.Secrets(map[string]api.Grant{everything: {Name: "ops"}}),
		Idempotency: backend.Idempotency,
		Timeout:     time.Second,
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("WSKIT_TEST_API_ADDR"), []byte(ln.Addr().String()), 0o600); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nserving")
	_ = (&http.Server{Handler: h, ReadHeaderTimeout: poll.Guard}).Serve(ln)
}

// servers are two processes, of which one after the other is killed and replaced.
type servers struct {
	t     *testing.T
	redis *redistest.Server

	mu    sync.Mutex
	addrs [2]string
	procs [2]*exec.Cmd
}

func (s *servers) start(i int) {
	s.t.Helper()
	file := fmt.Sprintf("%s/%d", s.t.TempDir(), i)
	s.t.Setenv("WSKIT_TEST_API_ADDR", file)
	proc := process.StartTest(s.t, "TestProcess", "WSKIT_TEST_API="+s.redis.URL(), "serving")
	addr, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs[i], s.addrs[i] = proc, string(addr)
}

func (s *servers) kill(i int) {
	_ = s.procs[i].Process.Kill()
	_ = s.procs[i].Wait()
}

// post makes a call to one of the servers. The status is 0 if there was no answer.
func (s *servers) post(ctx context.Context, call, params, key string) (status int, body string) {
	s.mu.Lock()
	addr := s.addrs[rand.IntN(2)]
	s.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/"+call, strings.NewReader(params))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+everything)
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

// A service that makes each call until it has an answer, with the same key and id, publishes each order once, whatever
// server is killed in between.
func TestServersAreKilledDuringCalls(t *testing.T) {
	s := &servers{t: t, redis: redistest.Start(t)}
	s.start(0)
	s.start(1)
	const senders, orders, kills = 6, 60, 6
	var done sync.WaitGroup
	step := make(chan struct{}, senders*orders) // an order was answered
	for sender := range senders {
		done.Go(func() {
			for i := range orders {
				id := 1 + sender*orders + i
				params := fmt.Sprintf(`{"topic":"orders","event":"order.paid","data":{"id":%d,"buyer":"x"},"id":"order-%d"}`, id, id)
				poll.Until(t, "an order to be published", func() bool {
					status, body := s.post(t.Context(), "publish", params, fmt.Sprint("key-", id))
					switch status {
					case http.StatusOK:
						return true
					case 0, http.StatusConflict, http.StatusServiceUnavailable: // killed; another has the key; Redis is slow
						return false
					}
					t.Errorf("order %d: %d %s", id, status, body)
					return true
				})
				step <- struct{}{}
			}
		})
	}
	for k := range kills {
		for range senders * orders / (kills + 2) {
			<-step
		}
		s.kill(k % 2)
		s.start(k % 2)
	}
	done.Wait()

	got := make(map[int]int)
	for from, more := "", true; more; {
		var page router.HistoryPage
		poll.Until(t, "the history to be read", func() bool {
			status, body := s.post(t.Context(), "history", `{"topic":"orders","limit":1000,"from":"`+from+`"}`, "read-"+from)
			return status == http.StatusOK && json.Unmarshal([]byte(body), &page) == nil
		})
		for _, m := range page.Messages {
			var p paid
			if err := json.Unmarshal(m.Payload, &p); err != nil {
				t.Fatal(err)
			}
			got[p.ID]++
			from = m.Pos
		}
		more = page.More
	}
	for id := 1; id <= senders*orders; id++ {
		if got[id] != 1 {
			t.Errorf("order %d was published %d times", id, got[id])
		}
	}
	if len(got) != senders*orders {
		t.Errorf("%d orders were published, want %d", len(got), senders*orders)
	}
}
