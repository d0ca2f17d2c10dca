package cfdo_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

var ten = limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour}

// The Worker as it is deployed, by its own clock: waiting as advised succeeds,
// though that clock counts in milliseconds.
func TestProductionWorker(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{File: "production.capnp"})
	for _, o := range []cfdo.Options{{Timeout: time.Minute}, {Timeout: time.Minute, Remember: -1}} {
		s := openStore(t, w.URL, o)
		p := limit.TokenBucket{Capacity: 3, Refill: 1, Per: 33_333 * time.Microsecond}
		key := fmt.Sprint("production:", o.Remember)
		for waits := 0; waits < 10; {
			d := take(t, s, key, p, 3)
			if d.Allowed {
				continue
			}
			waits++
			if d.RetryAfter <= 0 || d.RetryAfter > 101*time.Millisecond || d.RetryAfter%time.Millisecond != 0 {
				t.Fatalf("%+v", d)
			}
			time.Sleep(d.RetryAfter)
			if d = take(t, s, key, p, 3); !d.Allowed {
				t.Fatalf("denied again after waiting as advised: %+v", d)
			}
		}
	}
}

// answering is a server that gives every request the same answer.
func answering(t *testing.T, status int, kind, body string) (url string, posts *atomic.Int64) {
	posts = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, posts
}

// Error answers parsed as decisions. Whatever is no answer to the
// question is an error, names what it is, and is asked once.
func TestErrorAnswersAreNoDecisions(t *testing.T) {
	t.Parallel()
	const allowed = `{"answers":[[1,0,10,9,0,0,1000,1795219200000000,0]]}`
	const json = "application/json"
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
		want   error
	}{
		{"unauthorized", 401, json, `{"error":{"code":"unauthorized","message":"no"}}`, cfdo.ErrUnauthorized},
		{"a decision that is unauthorized", 401, json, allowed, cfdo.ErrUnauthorized},
		{"forbidden", 403, "text/html", "<html>", cfdo.ErrUnauthorized},
		{"bad request", 400, json, `{"error":{"code":"bad_request","message":"cost must be a whole number"}}`, cfdo.ErrBadRequest},
		{"not the Worker", 404, "text/plain", "not found", cfdo.ErrBadRequest},
		{"not the Worker, politely", 200, "text/html", "<html>welcome</html>", cfdo.ErrBadRequest},
		{"overloaded", 503, json, allowed, cfdo.ErrOverloaded},
		{"too many", 429, "text/html", "error 1015", cfdo.ErrOverloaded},
		{"failed", 500, json, allowed, cfdo.ErrFailed},
		{"bad gateway", 502, "text/html", "<html>", cfdo.ErrFailed},
		{"the object is overloaded", 200, json, `{"answers":["overloaded"]}`, cfdo.ErrOverloaded},
		{"the object failed", 200, json, `{"answers":["failed"]}`, cfdo.ErrFailed},
		{"an error without a status", 200, json, `{"error":{"code":"internal"}}`, cfdo.ErrFailed},
		{"nothing", 200, json, ``, cfdo.ErrFailed},
		{"null", 200, json, `null`, cfdo.ErrFailed},
		{"no answers", 200, json, `{"answers":[]}`, cfdo.ErrFailed},
		{"more answers", 200, json, strings.Replace(allowed, "[[", "[[],[", 1), cfdo.ErrFailed},
		{"cut off", 200, json, allowed[:40], cfdo.ErrFailed},
		{"a decision of another kind", 200, json, `{"answers":[{"allowed":true,"remaining":9}]}`, cfdo.ErrFailed},
		{"an empty one", 200, json, `{"answers":[[]]}`, cfdo.ErrFailed},
		{"a short one", 200, json, `{"answers":[[1,0,10,9,0,0,1000,1795219200000000]]}`, cfdo.ErrFailed},
		{"a truth of 2", 200, json, `{"answers":[[2,0,10,9,0,0,1000,1795219200000000,0]]}`, cfdo.ErrFailed},
		{"a negative number", 200, json, `{"answers":[[1,0,10,-9,0,0,1000,1795219200000000,0]]}`, cfdo.ErrFailed},
		{"a fraction", 200, json, `{"answers":[[1,0,10,9.5,0,0,1000,1795219200000000,0]]}`, cfdo.ErrFailed},
		{"a number out of range", 200, json, `{"answers":[[1,0,10,9007199254740992,0,0,1000,1795219200000000,0]]}`, cfdo.ErrFailed},
		{"a part that is not there", 200, json, `{"answers":[[1,0,10,9,0,0,1000,1795219200000000,1]]}`, cfdo.ErrFailed},
		{"null in it", 200, json, `{"answers":[[1,0,10,null,0,0,1000,1795219200000000,0]]}`, cfdo.ErrFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, posts := answering(t, c.status, c.kind, c.body)
			s := openStore(t, url, cfdo.Options{})
			for i := range int64(2) {
				d, err := s.Take(ctx, []byte("k"), ten, 1)
				if !errors.Is(err, c.want) || d != (limit.Decision{}) {
					t.Errorf("%+v, %v; want %v", d, err, c.want)
				}
				if n := posts.Load(); n != i+1 {
					t.Errorf("%d requests for %d calls", n, i+1)
				}
			}
			if strings.Contains(c.body, "whole number") {
				if _, err := s.Take(ctx, []byte("k"), ten, 1); !strings.Contains(err.Error(), "whole number") {
					t.Errorf("%v does not say what is wrong", err)
				}
			}
		})
	}
	url, posts := answering(t, 200, json, allowed)
	redirect := httptest.NewServer(http.RedirectHandler(url, http.StatusTemporaryRedirect))
	defer redirect.Close()
	if _, err := openStore(t, redirect.URL, cfdo.Options{}).Take(ctx, []byte("k"), ten, 1); !errors.Is(err, cfdo.ErrBadRequest) || posts.Load() != 0 {
		t.Errorf("a redirect is followed: %v, %d requests", err, posts.Load())
	}
	if d := take(t, openStore(t, url, cfdo.Options{}), "k", ten, 1); !d.Allowed || d.Charged != 1 || d.Policy != ten.String() {
		t.Errorf("a right answer: %+v", d)
	}
}

// An unset secret that admits "Bearer null"; and a wrong one.
func TestUnsetSecretAdmitsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secret string
		tokens []string
	}{{"", []string{"null", "undefined", "-"}}, {"right", []string{"wrong", "righ", "right1"}}} {
		w := workerdtest.Start(t, workerdtest.Config{Env: map[string]string{"SECRET": c.secret}})
		for _, token := range c.tokens {
			s, err := cfdo.Open(w.URL, token, cfdo.Options{Timeout: poll.Guard})
			if err != nil {
				t.Fatal(err)
			}
			if d, err := s.Take(ctx, []byte("k"), ten, 1); !errors.Is(err, cfdo.ErrUnauthorized) || d.Allowed {
				t.Errorf("secret %q, token %q: %+v, %v", c.secret, token, d, err)
			}
		}
	}
}

// Of 39 calls that timed out, 30 had been charged, and a retry charged
// them again. Here one is never sent again.
func TestTimeoutIsNotRetried(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{})
	s := openStore(t, w.URL, cfdo.Options{Remember: -1})
	take(t, s, "timeout", ten, 1)
	before := s.Stats().Requests
	w.Stall()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := s.Take(short, []byte("timeout"), ten, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
	w.Resume()
	if n := s.Stats().Requests - before; n != 1 {
		t.Errorf("%d requests", n)
	}
	d, err := s.Peek(ctx, []byte("timeout"), ten, 1)
	if err != nil {
		t.Fatal(err)
	}
	if used := 10 - d.Remaining; used > 2 {
		t.Errorf("2 calls used %d", used)
	}
}

// An Idempotency-Key header makes net/http replay POSTs by itself. A
// server that takes a request and hangs up, on a connection that was used before,
// sees it once.
func TestLostRequestIsNotReplayed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var posts atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
						if _, ok := req.Header[name]; ok {
							t.Errorf("the request has the header %s", name)
						}
					}
					if posts.Add(1); n > 0 {
						return // the first on a connection is answered, the second is lost
					}
					const body = `{"answers":[[1,0,10,9,0,0,1000,1795219200000000,0]]}`
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				}
			}()
		}
	}()
	s := openStore(t, "http://"+l.Addr().String(), cfdo.Options{Requests: 1})
	for round := range int64(5) {
		take(t, s, "k", ten, 1)
		if _, err := s.Take(ctx, []byte("k"), ten, 1); !errors.Is(err, cfdo.ErrUnreachable) || errors.Is(err, cfdo.ErrNotSent) {
			t.Errorf("a lost request: %v", err)
		}
		if n := posts.Load(); n != 2*(round+1) {
			t.Fatalf("%d requests arrived for %d calls", n, 2*(round+1))
		}
	}
}

// A connection that is refused has charged nothing: that is tried again, and says
// so in the end.
func TestRefusedConnectionIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t, "http://"+process.FreeAddr(t), cfdo.Options{})
	_, err := s.Take(ctx, []byte("k"), ten, 1)
	if !errors.Is(err, cfdo.ErrUnreachable) || !errors.Is(err, cfdo.ErrNotSent) {
		t.Errorf("error %v, want unreachable and not sent", err)
	}
	if st := s.Stats(); st.Retries != 2 {
		t.Errorf("%+v", st)
	}

	var dials atomic.Int64
	url, posts := answering(t, 200, "application/json", `{"answers":[[1,0,10,9,0,0,1000,1795219200000000,0]]}`)
	s = openStore(t, url, cfdo.Options{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused, once")}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}})
	if d := take(t, s, "k", ten, 1); !d.Allowed || posts.Load() != 1 {
		t.Errorf("%+v, %d requests", d, posts.Load())
	}
}

// The failure policy and the breaker are those of package limit.
func TestLimiterFallsBack(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{})
	s := openStore(t, w.URL, cfdo.Options{Remember: -1})
	local := limit.New(s, ten, limit.Options{Name: "local", Timeout: poll.Guard})
	closed := limit.New(s, ten, limit.Options{Name: "closed", Timeout: poll.Guard, OnFailure: limit.FailClosed})
	for _, l := range []*limit.Limiter{local, closed} {
		if d, err := l.Take(ctx, limit.KeyOf("ann"), 4); err != nil || d.Remaining != 6 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	w.Kill()
	if d, err := local.Take(ctx, limit.KeyOf("ann"), 4); err != nil || !d.Allowed || d.Charged != 0 {
		t.Errorf("FailLocal: %+v, %v", d, err)
	}
	if _, err := closed.Take(ctx, limit.KeyOf("ann"), 1); err == nil {
		t.Error("FailClosed admits while the Worker is down")
	}
	w.Run()
	eventually(t, "the Worker is asked again", func() bool {
		d, err := closed.Take(ctx, limit.KeyOf("bea"), 1)
		return err == nil && d.Allowed
	})
}
