package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/webhook"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	url    = "https://service.example/realtime"
)

// service is one that gets events. It answers with a status; 0: not at all.
type service struct {
	t    *testing.T
	many bool // processes: what one sends late may be older, and the order of seq counts

	mu       sync.Mutex
	status   int
	loses    bool // its answers are lost: it has the events, and the sender does not know
	requests []*http.Request
	events   []webhook.Event
}

// RoundTrip makes it a transport.
func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	status, loses := s.status, s.loses
	s.mu.Unlock()
	if status == 0 {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.take(req, body, status)
	if loses {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Body: http.NoBody, Request: req}, nil
}

func (s *service) take(req *http.Request, body []byte, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(req.Header.Get("webhook-id") + "." + req.Header.Get("webhook-timestamp") + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !slices.Contains(strings.Fields(req.Header.Get("webhook-signature")), want) {
		s.t.Errorf("the signature is %q, want %q", req.Header.Get("webhook-signature"), want)
	}
	if status != http.StatusOK {
		return
	}
	var b struct {
		Events []webhook.Event `json:"events"`
	}
	if err := json.Unmarshal(body, &b); err != nil || len(b.Events) == 0 || len(b.Events) > 100 {
		s.t.Errorf("%d events, %v: %.200s", len(b.Events), err, body)
	}
	for _, e := range b.Events {
		if n := len(s.events); !s.many && n > 0 && e.Seq <= s.events[n-1].Seq {
			s.t.Errorf("the event %+v comes after %+v", e, s.events[n-1])
		}
		s.events = append(s.events, e)
	}
}

// lose has answers lost, or not any more.
func (s *service) lose(loses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loses = loses
}

// answer sets the status.
func (s *service) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// next returns what came since the last call, as text.
func (s *service) next() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		all = append(all, strings.Join(strings.Fields(fmt.Sprint(e.Type, " ", e.Topic, " ", e.User, " ", string(e.Data))), " "))
	}
	s.events = nil
	slices.Sort(all)
	return all
}

func (s *service) expect(when string, want ...string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.next(); !slices.Equal(got, want) {
		s.t.Errorf("%s: the service gets %q, want %q", when, got, want)
	}
}

// hooked runs a test in a bubble, with a router of which a service gets events.
func hooked(t *testing.T, o webhook.Options, test func(t *testing.T, s *service, w *webhook.Webhook, dial func(user string) *routertest.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, status: http.StatusOK}
		r := joinable(adapters.Backend{})
		w, stop := begin(t, s, r, o)
		server := routertest.New(t, r)
		defer stop()
		s.expect("the first event", "reset")
		test(t, s, w, func(user string) *routertest.Client {
			return server.Dial(routertest.DialOptions{Header: http.Header{"User": {user}}})
		})
	})
}

// joinable is a router whose clients join and leave topics.
func joinable(b adapters.Backend) *router.Router {
	r := router.New(router.Options{Backend: b, Authenticate: func(req *http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: req.Header.Get("User")}, nil
	}})
	router.RPC(r, "join", func(c *router.Context, topic string) (struct{}, error) {
		return struct{}{}, c.Join(topic, nil)
	})
	router.RPC(r, "leave", func(c *router.Context, topic string) (struct{}, error) {
		c.Unsubscribe(topic)
		return struct{}{}, nil
	})
	return r
}

// begin has the service get the events of a router, until stop is called.
func begin(t *testing.T, s *service, r *router.Router, o webhook.Options) (w *webhook.Webhook, stop func()) {
	t.Helper()
	o.URL, o.Secrets = url, []string{secret}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := webhook.New(ctx, r, o.WithTransport(s))
	if err != nil {
		t.Fatal(err)
	}
	return w, func() { cancel(); w.Wait() }
}

func request(c *routertest.Client, typ, topic string) {
	routertest.ExpectReply[struct{}](c.Request(typ, topic))
}

// What is true is sent at once, and what is not any more after Grace.
func TestStates(t *testing.T) {
	t.Parallel()
	o := webhook.Options{Topics: []string{"orders:*", "hall"}, Members: true, Connections: true, Grace: 5 * time.Second}
	hooked(t, o, func(t *testing.T, s *service, _ *webhook.Webhook, dial func(string) *routertest.Client) {
		ann := dial("ann")
		s.expect("a connection", "connection.opened ann")
		request(ann, "join", "orders:7")
		s.expect("joining", "member.joined orders:7 ann", "topic.occupied orders:7")
		request(ann, "join", "other")
		s.expect("another topic")
		second := dial("ann")
		request(second, "join", "orders:7")
		s.expect("a second connection", "connection.opened ann")
		request(ann, "leave", "orders:7")
		ann.Close()
		time.Sleep(4 * time.Second)
		s.expect("before Grace is over")
		time.Sleep(time.Second)
		s.expect("the first has gone", "connection.closed ann")
		request(second, "leave", "orders:7")
		request(second, "join", "orders:7")
		time.Sleep(time.Minute)
		s.expect("leaving and coming back")
		second.Close()
		time.Sleep(5 * time.Second)
		s.expect("all have gone", "connection.closed ann", "member.left orders:7 ann", "topic.vacated orders:7")
	})
}

// A service that is away gets what is true when it is back, and all events of Send, in their order.
func TestTheServiceIsAway(t *testing.T) {
	t.Parallel()
	for status, name := range map[int]string{0: "does not answer", 500: "fails", 302: "redirects", 401: "refuses"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooked(t, webhook.Options{Topics: []string{"*"}}, func(t *testing.T, s *service, w *webhook.Webhook, dial func(string) *routertest.Client) {
				s.answer(status)
				c := dial("ann")
				request(c, "join", "first")
				synctest.Wait()
				for i := range 250 {
					if err := w.Send(t.Context(), "seen", "orders", i); err != nil {
						t.Fatal(err)
					}
				}
				for range 10 {
					request(c, "join", "second")
					request(c, "leave", "second")
				}
				time.Sleep(time.Hour)
				if got := w.Stats(); got.Failed < 50 || got.Failed > 120 || got.Behind.IsZero() || got.Sent != 1 {
					t.Errorf("after an hour: %+v", got)
				}
				s.answer(http.StatusOK)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				s.mu.Lock()
				var seen []string
				s.events = slices.DeleteFunc(s.events, func(e webhook.Event) bool {
					if e.Type == "seen" {
						seen = append(seen, string(e.Data))
					}
					return e.Type == "seen"
				})
				s.mu.Unlock()
				for i := range 250 {
					if len(seen) != 250 || seen[i] != fmt.Sprint(i) {
						t.Fatalf("events of Send: %q", seen)
					}
				}
				s.expect("what is true", "topic.occupied first")
				if got := w.Stats(); !got.Behind.IsZero() || got.Dropped != 0 || got.Sent != 252 {
					t.Errorf("at the end: %+v", got)
				}
			})
		})
	}
}

// A sender that takes over takes back what the one before it may have sent, if it is not true any more.
func TestWhatMayHaveComeIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, status: http.StatusOK}
		o := webhook.Options{Topics: []string{"*"}}
		r := joinable(adapters.Backend{
			Broker: memory.NewBroker(), Limits: memory.NewStore(),
		})
		_, stop := begin(t, s, r, o)
		s.expect("the first event", "reset")
		s.lose(true)
		c := routertest.New(t, r).Dial()
		request(c, "join", "hall")
		s.expect("joining", "topic.occupied hall")
		request(c, "leave", "hall")
		stop() // before it tries again
		s.lose(false)
		_, stop = begin(t, s, joinable(r.Backend()), o)
		defer stop()
		time.Sleep(time.Minute)
		s.expect("the next sender", "topic.vacated hall")
	})
}

// What waits is bounded in number and time. What is dropped is counted.
func TestWhatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	o := webhook.Options{MaxQueued: 100, Keep: time.Hour}
	hooked(t, o, func(t *testing.T, s *service, w *webhook.Webhook, _ func(string) *routertest.Client) {
		send := func(n int) {
			t.Helper()
			for range n {
				if err := w.Send(t.Context(), "seen", "", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.answer(http.StatusInternalServerError)
		send(1) // is being sent
		synctest.Wait()
		send(150)
		time.Sleep(10 * time.Minute)
		s.answer(http.StatusOK)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if sent, dropped := len(s.next()), w.Stats().Dropped; sent != 101 || dropped != 50 {
			t.Errorf("%d events were sent, and %d dropped", sent, dropped)
		}
		s.answer(http.StatusInternalServerError)
		send(1)
		synctest.Wait()
		send(2)
		time.Sleep(2*time.Hour + 5*time.Minute)
		s.answer(http.StatusOK)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if sent, dropped := len(s.next()), w.Stats().Dropped; sent != 0 || dropped != 53 {
			t.Errorf("%d old events were sent, and %d dropped in all", sent, dropped)
		}
		send(1)
		s.expect("an event after that", "seen null")
	})
}

// What makes no sense is refused, with what to change.
func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for text, change := range map[string]func(*webhook.Options){
		"https":            func(o *webhook.Options) { o.URL = "" },
		"without TLS":      func(o *webhook.Options) { o.URL = "http://service.example" },
		"Secrets is empty": func(o *webhook.Options) { o.Secrets = nil },
		"Secrets[1]":       func(o *webhook.Options) { o.Secrets = []string{secret, "whsec_MfKQ"} },
		"Members":          func(o *webhook.Options) { o.Members = true },
		"Grace":            func(o *webhook.Options) { o.Grace = time.Hour },
		"Keep":             func(o *webhook.Options) { o.Keep = time.Second },
		"MaxQueued":        func(o *webhook.Options) { o.MaxQueued = -1 },
		"Name":             func(o *webhook.Options) { o.Name = strings.Repeat("x", 101) },
	} {
		o := webhook.Options{URL: url, Secrets: []string{secret}}
		change(&o)
		if _, err := webhook.New(ctx, router.New(), o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Events that cannot be sent are refused when they are given.
func TestSendRefuses(t *testing.T) {
	t.Parallel()
	hooked(t, webhook.Options{}, func(t *testing.T, s *service, w *webhook.Webhook, _ func(string) *routertest.Client) {
		for name, send := range map[string]func() error{
			"no type":      func() error { return w.Send(t.Context(), "", "", nil) },
			"a state":      func() error { return w.Send(t.Context(), "topic.vacated", "", nil) },
			"reset":        func() error { return w.Send(t.Context(), "reset", "", nil) },
			"a long type":  func() error { return w.Send(t.Context(), strings.Repeat("x", 101), "", nil) },
			"a long topic": func() error { return w.Send(t.Context(), "x", strings.Repeat("x", 257), nil) },
			"long data":    func() error { return w.Send(t.Context(), "x", "", strings.Repeat("x", 17<<10)) },
			"no JSON":      func() error { return w.Send(t.Context(), "x", "", func() {}) },
		} {
			if err := send(); errors.CodeOf(err) != errors.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.expect("nothing")
	})
}
