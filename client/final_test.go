package client_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// restarting is a server behind something that answers the first handshakes itself.
type restarting struct {
	url      string
	requests atomic.Int64
}

// newRestarting answers so many handshakes by answer, and the others by a router.
func newRestarting(t *testing.T, first int64, o router.Options, answer http.HandlerFunc) *restarting {
	t.Helper()
	r := router.New(o)
	s := &restarting{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s.requests.Add(1) <= first {
			answer(w, req)
			return
		}
		r.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		_ = r.Shutdown(context.Background())
		server.Close()
	})
	s.url = strings.Replace(server.URL, "http", "ws", 1)
	return s
}

// settle connects, and returns the client when it is connected or has ended.
func settle(t *testing.T, url string, o client.Options) client.State {
	t.Helper()
	o.MinBackoff, o.MaxBackoff, o.Logger = time.Millisecond, 5*time.Millisecond, slog.New(slog.DiscardHandler)
	c, err := client.Dial(t.Context(), url, o)
	if err != nil {
		return client.State{Phase: client.Closed, Err: errors.From(err)}
	}
	defer func() { _ = c.Close(t.Context()) }()
	return c.State()
}

// A client gives up for good only if the server itself says that waiting does not help. What a proxy answers while it
// restarts ends no client.
func TestWhatIsFinal(t *testing.T) {
	t.Parallel()
	answer := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+2 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			if len(header)%2 == 1 {
				_, _ = io.WriteString(w, header[len(header)-1])
			}
		}
	}
	const problem, typ = "application/problem+json", "Content-Type"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		final  errors.Code // empty: it is connected in the end
	}{
		"a proxy's 200":                    {answer: answer(200, typ, "text/html", "<h1>Welcome</h1>")},
		"a proxy's 302":                    {answer: answer(302, "Location", "/maintenance", "")},
		"a redirect to itself":             {answer: answer(307, "Location", "/", "")},
		"a proxy's 400":                    {answer: answer(400, typ, "text/plain", "bad request")},
		"a proxy's 403":                    {answer: answer(403, typ, "text/html", "<h1>Forbidden</h1>")},
		"a proxy's 404":                    {answer: answer(404, typ, "text/plain", "404 page not found")},
		"a proxy's 421":                    {answer: answer(421)},
		"a proxy's 502":                    {answer: answer(502)},
		"another one's problem":            {answer: answer(404, typ, problem, `{"title":"no route","status":404}`)},
		"a code that is no problem":        {answer: answer(403, typ, "application/json", `{"code":"PERMISSION_DENIED"}`)},
		"a problem that is not JSON":       {answer: answer(403, typ, problem, `{"code":"PERMISSION_DENIED"`)},
		"the server's 503":                 {answer: answer(503, typ, problem, `{"code":"UNAVAILABLE","retryAfterMs":1}`)},
		"the server's 403":                 {answer(403, typ, problem+"; charset=utf-8", `{"code":"PERMISSION_DENIED","detail":"no"}`), errors.PermissionDenied},
		"the server's 404":                 {answer(404, typ, problem, `{"code":"NOT_FOUND"}`), errors.NotFound},
		"the server's 429 without any end": {answer(429, typ, problem, `{"code":"RESOURCE_EXHAUSTED","retryAfterMs":null}`), errors.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRestarting(t, 3, router.Options{}, c.answer)
			state := settle(t, s.url, client.Options{})
			switch {
			case c.final == "" && (state.Phase != client.Connected || s.requests.Load() != 4):
				t.Errorf("after %d requests the client is %v: %v", s.requests.Load(), state.Phase, state.Err)
			case c.final != "" && (state.Phase != client.Closed || errors.CodeOf(state.Err) != c.final || s.requests.Load() != 1):
				t.Errorf("after %d requests the client is %v: %v", s.requests.Load(), state.Phase, state.Err)
			}
		})
	}
}

// A redirect is not followed: another host gets neither the token nor a secret header.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var other atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer elsewhere.Close()
	s := newRestarting(t, 2, router.Options{}, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	state := settle(t, s.url, client.Options{
		Header: http.Header{"X-Api-Key": {"secret"}},
		Token:  func(context.Context) (string, error) { return "secret", nil },
	})
	if other.Load() != 0 || state.Phase != client.Connected || s.requests.Load() != 3 {
		t.Errorf("the other host got %d requests; the client is %v after %d", other.Load(), state.Phase, s.requests.Load())
	}
}

// A token that is refused and comes again from a cache is no reason to give up, unless it comes again and again.
func TestACachedTokenIsNotFinal(t *testing.T) {
	t.Parallel()
	for same, connects := range map[int64]bool{1: true, 4: true, 1000: false} {
		t.Run(fmt.Sprint(same, " times"), func(t *testing.T) {
			t.Parallel()
			s := newRestarting(t, 0, router.Options{Authenticate: func(req *http.Request) (ingress.Identity, error) {
				if req.Header.Get("Authorization") != "Bearer fresh" {
					return ingress.Identity{}, errors.Unauthenticated.New("the token has expired")
				}
				return ingress.Identity{User: "ann"}, nil
			}}, nil)
			var calls atomic.Int64
			state := settle(t, s.url, client.Options{Token: func(context.Context) (string, error) {
				if calls.Add(1) <= 1+same {
					return "stale", nil
				}
				return "fresh", nil
			}})
			if connected := state.Phase == client.Connected; connected != connects {
				t.Errorf("the client is %v: %v", state.Phase, state.Err)
			}
			if !connects && (errors.CodeOf(state.Err) != errors.Unauthenticated || s.requests.Load() != 1 || calls.Load() != 6) {
				t.Errorf("after %d requests and %d calls it ended with %v", s.requests.Load(), calls.Load(), state.Err)
			}
		})
	}
}
