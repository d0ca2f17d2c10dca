package router_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

func TestTheOpenHookIsFinishedBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	var opened atomic.Bool
	s := serveSocket(t, router.Options{OnOpen: func(*router.Conn) error {
		spend(50 * time.Millisecond)
		opened.Store(true)
		return nil
	}}, func(r *router.Router) {
		router.RPC(r, "opened", func(*router.Context, struct{}) (said, error) { return said{fmt.Sprint(opened.Load())}, nil })
	})
	p := s.dial()
	p.write(textFrame(`{"type":"opened","meta":{"correlationId":"1"}}`))
	p.expect("reply 1 true")
	p.bye()
	s.recovered()
}

// So a test may expect what OnOpen has seen to.
func TestRoutertestDialsUntilTheOpenHookHasReturned(t *testing.T) {
	t.Parallel()
	var opened atomic.Bool
	inMemory(t, router.Options{OnOpen: func(*router.Conn) error {
		time.Sleep(time.Second)
		opened.Store(true)
		return nil
	}}, func(*router.Router) {}, func(t *testing.T, _ *router.Router, _ *routertest.Client) {
		if !opened.Load() {
			t.Error("Dial returned before OnOpen had")
		}
	})
}

func TestOpenHookRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		code errors.CloseCode
		text string
	}{
		{errors.PermissionDenied.New("banned"), errors.ClosePolicy, `{"message":"banned"}`},
		{errors.Unavailable.New("full"), errors.CloseTryAgainLater, `{"message":"full"}`},
		{errors.New("secret"), errors.CloseInternal, `{"message":"internal error"}`},
		{errors.NotFound.New(strings.Repeat("é", 100)), errors.CloseInternal, `{"message":"` + strings.Repeat("é", 54) + `"}`},
	} {
		t.Run(string(errors.CodeOf(tc.err)), func(t *testing.T) {
			var closed atomic.Int64
			inMemory(t, router.Options{
				OnOpen:  func(c *router.Conn) error { return errors.Join(c.Subscribe(t.Context(), "a"), tc.err) },
				OnClose: func(*router.Conn, router.CloseInfo) { closed.Add(1) },
				OnError: func(router.Fault) {},
			}, func(*router.Router) {}, func(t *testing.T, r *router.Router, c *routertest.Client) {
				if reason := c.ExpectClose(tc.code); reason != tc.text {
					t.Errorf("the reason is %q, want %q", reason, tc.text)
				}
				synctest.Wait()
				if closed.Load() != 0 {
					t.Error("OnClose was called though OnOpen had failed")
				}
				if r.Stats().Topics != 0 {
					t.Error("a subscription of OnOpen is left")
				}
			})
		})
	}
}

func TestCloseHookGetsHowItEnded(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var infos []router.CloseInfo
	synctest.Test(t, func(t *testing.T) {
		r := router.New(router.Options{OnClose: func(c *router.Conn, i router.CloseInfo) {
			mu.Lock()
			defer mu.Unlock()
			infos = append(infos, i)
			if c.Context().Err() == nil {
				t.Error("the connection's context is not cancelled in OnClose")
			}
			if err := c.Send("x", nil); err != router.ErrClosed {
				t.Errorf("sending in OnClose: %v", err)
			}
			if err := c.Subscribe(context.Background(), "late"); err != router.ErrClosed {
				t.Errorf("subscribing in OnClose: %v", err)
			}
		}})
		router.On(r, "close", func(c *router.Context, _ struct{}) error {
			c.Conn().Close(4000, "enough")
			c.Conn().Close(4001, "again")
			return nil
		})
		s := routertest.New(t, r)
		s.Dial().Close()
		synctest.Wait()
		c := s.Dial()
		c.Send("close", nil)
		if reason := c.ExpectClose(4000); reason != "enough" {
			t.Errorf("the reason is %q", reason)
		}
		synctest.Wait()
		s.Dial().Vanish()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(infos) != 3 {
			t.Fatalf("OnClose was called %d times for 3 connections", len(infos))
		}
		if i := infos[0]; i.Code != errors.CloseNormal || i.ByServer || i.Err != nil {
			t.Errorf("closed by the client: %+v", i)
		}
		if i := infos[1]; i.Code != 4000 || i.Reason != "enough" || !i.ByServer {
			t.Errorf("closed by the server: %+v", i)
		}
		if i := infos[2]; i.Code != 1006 || i.ByServer || i.Err == nil {
			t.Errorf("vanished: %+v", i)
		}
		if r.Stats().Topics != 0 || r.Stats().Connections != 0 {
			t.Errorf("%d topics and %d connections are left", r.Stats().Topics, r.Stats().Connections)
		}
	})
}

func TestShutdownLetsHandlersFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(router.Options{Liveness: router.Liveness{DrainWindow: 4 * time.Second}})
		router.RPC(r, "slow", func(_ *router.Context, m text) (text, error) {
			time.Sleep(2 * time.Second)
			return m, nil
		})
		s := routertest.New(t, r)
		idle, busy := s.Dial(), s.Dial()
		first := busy.Request("slow", text{"a"})
		second := busy.Request("slow", text{"b"})
		time.Sleep(time.Second)

		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- r.Shutdown(context.Background()) }()
		synctest.Wait()
		if reason := idle.ExpectClose(errors.CloseGoingAway); !strings.HasPrefix(reason, `{"retryAfterMs":`) {
			t.Errorf("the reason is %q", reason)
		}
		if f := busy.Request("slow", text{"c"}).ExpectError(errors.Unavailable); !f.Retryable || f.RetryAfterMs == nil {
			t.Errorf("a message during the drain is answered %+v", f)
		}
		_, res, err := s.TryDial()
		if err == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("a handshake during the drain: %v, %+v", err, res)
		}
		for i, q := range []*routertest.Request{first, second} {
			if got := routertest.ExpectReply[text](q); got.Text != string(rune('a'+i)) {
				t.Errorf("request %d is answered %q", i, got.Text)
			}
		}
		busy.ExpectClose(errors.CloseGoingAway)
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		// The second handler began when the first, sent a few milliseconds before
		// the sleep, was through.
		if took := time.Since(start); took < 2900*time.Millisecond || took > 3*time.Second {
			t.Errorf("Shutdown took %v, want 3s: as long as the handlers", took)
		}
	})
}

// last has a client say something, of which some takes as long as slow, and end its
// connection. It returns what has been handled, and that OnClose was called, in order.
func last(t *testing.T, slow time.Duration, say, end func(*routertest.Client)) string {
	var mu sync.Mutex
	var log []string
	synctest.Test(t, func(t *testing.T) {
		note := func(c *router.Context, what string) {
			if c != nil && c.Err() != nil {
				what += " cancelled"
				time.Sleep(time.Millisecond) // OnClose is called at the same time
			}
			mu.Lock()
			defer mu.Unlock()
			log = append(log, what)
		}
		sleep := func(c *router.Context) {
			select {
			case <-time.After(slow):
			case <-c.Done():
			}
		}
		r := router.New(router.Options{
			OnClose: func(*router.Conn, router.CloseInfo) { note(nil, "closed") },
			OnError: func(f router.Fault) { t.Errorf("fault: %v", f.Err) },
		})
		event := func(c *router.Context, _ struct{}) error { note(c, c.Type()); return nil }
		slowly := func(c *router.Context, m struct{}) error { sleep(c); return event(c, m) }
		request := func(c *router.Context, m struct{}) (int, error) { sleep(c); return 1, event(c, m) }
		router.On(r, "slow", slowly)
		router.On(r, "event", event)
		router.On(r, "beside", slowly, router.RouteOptions{Concurrent: true})
		router.RPC(r, "request", request)
		c := routertest.New(t, r).Dial()
		say(c)
		time.Sleep(100 * time.Millisecond)
		end(c)
		time.Sleep(time.Minute)
	})
	return strings.Join(log, ", ")
}

// Events sent before a close are handled, for a second at most; requests, which
// cannot be answered any more, are not. When its connection breaks, what waits is
// dropped.
func TestEventsBeforeAClose(t *testing.T) {
	t.Parallel()
	events := func(c *routertest.Client) {
		c.Send("slow", nil)
		c.Send("event", nil)
		c.Request("request", nil)
		c.Send("event", nil)
	}
	for _, tc := range []struct {
		name string
		slow time.Duration
		say  func(*routertest.Client)
		end  func(*routertest.Client)
		want string
	}{
		{"closes", 500 * time.Millisecond, events, (*routertest.Client).Close, "slow, event, event, closed"},
		{"closes, and a handler hangs", time.Hour, events, (*routertest.Client).Close, "closed, slow cancelled"},
		{"closes after a request", time.Hour, func(c *routertest.Client) { c.Request("request", nil) }, (*routertest.Client).Close, "closed, request cancelled"},
		{"closes after a request and events", time.Hour, func(c *routertest.Client) {
			c.Request("request", nil)
			c.Send("event", nil)
		}, (*routertest.Client).Close, "request cancelled, event, closed"},
		{"closes while one is handled beside", 500 * time.Millisecond, func(c *routertest.Client) { c.Send("beside", nil) }, (*routertest.Client).Close, "beside, closed"},
		{"vanishes", 500 * time.Millisecond, events, (*routertest.Client).Vanish, "closed, slow cancelled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := last(t, tc.slow, tc.say, tc.end); got != tc.want {
				t.Errorf("%s; want %s", got, tc.want)
			}
		})
	}
}

// After a close by the server no further events are handled.
func TestNoCloseGraceForServerCloses(t *testing.T) {
	t.Parallel()
	var kick atomic.Pointer[router.Conn]
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		infos := make(chan router.CloseInfo, 1)
		r := router.New(router.Options{
			OnOpen:  func(c *router.Conn) error { kick.Store(c); return nil },
			OnClose: func(_ *router.Conn, i router.CloseInfo) { infos <- i },
		})
		router.On(r, "slow", func(c *router.Context, _ struct{}) error {
			select {
			case <-c.Done():
			case <-time.After(200 * time.Millisecond):
				handled.Add(1)
			}
			return nil
		})
		c := routertest.New(t, r).Dial()
		for range 4 {
			c.Send("slow", nil)
		}
		time.Sleep(300 * time.Millisecond)
		kick.Load().Close(errors.ClosePolicy, "banned")
		time.Sleep(time.Minute)
		if n, info := handled.Load(), <-infos; n != 1 || info.Code != errors.ClosePolicy || !info.ByServer {
			t.Errorf("%d events were handled, and it ended with %+v", n, info)
		}
	})
}

// How a connection ended is what its client said, whatever happens afterwards.
func TestShutdownCutsOffTheCloseGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		infos := make(chan router.CloseInfo, 2)
		r := router.New(router.Options{OnClose: func(_ *router.Conn, i router.CloseInfo) { infos <- i }})
		router.On(r, "slow", func(c *router.Context, _ struct{}) error { <-c.Done(); return nil })
		c := routertest.New(t, r).Dial()
		c.Send("slow", nil)
		time.Sleep(100 * time.Millisecond)
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if err := r.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("Shutdown: %v", err)
		}
		time.Sleep(time.Minute)
		if info := <-infos; info.Code != errors.CloseNormal || info.ByServer || len(infos) > 0 {
			t.Errorf("it ended with %+v", info)
		}
	})
}

// OnClose is called for every connection for which OnOpen has returned nil, also where
// Shutdown did not wait for that.
func TestShutdownCutsOffTheOpenHook(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		r := router.New(router.Options{
			OnOpen:  func(*router.Conn) error { time.Sleep(time.Second); opened.Add(1); return nil },
			OnClose: func(*router.Conn, router.CloseInfo) { closed.Add(1) },
		})
		s := routertest.New(t, r)
		go s.TryDial()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := r.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("Shutdown: %v", err)
		}
		time.Sleep(time.Minute)
		if opened.Load() != 1 || closed.Load() != 1 {
			t.Errorf("OnOpen returned nil %d times, OnClose was called %d times", opened.Load(), closed.Load())
		}
	})
}

func TestShutdownWaitsForHandlersOfConnectionsThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Bool
		r := router.New()
		router.On(r, "save", func(*router.Context, struct{}) error {
			time.Sleep(time.Second)
			done.Store(true)
			return nil
		})
		s := routertest.New(t, r)
		c := s.Dial()
		c.Send("save", nil)
		time.Sleep(100 * time.Millisecond)
		c.Vanish()
		synctest.Wait()
		if err := r.Shutdown(context.Background()); err != nil || !done.Load() {
			t.Errorf("Shutdown returned %v before the handler had", err)
		}
	})
}

func TestShutdownCutsOffWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var closed atomic.Int64
		r := router.New(router.Options{OnClose: func(*router.Conn, router.CloseInfo) { closed.Add(1) }})
		router.RPC(r, "hangs", func(*router.Context, struct{}) (struct{}, error) { <-release; return struct{}{}, nil })
		router.RPC(r, "polite", func(c *router.Context, _ struct{}) (struct{}, error) { <-c.Done(); return struct{}{}, c.Err() })
		s := routertest.New(t, r)
		a, b := s.Dial(), s.Dial()
		a.Request("hangs", nil)
		b.Request("polite", nil)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("Shutdown: %v", err)
		}
		a.ExpectClose(1006)
		b.ExpectClose(1006)
		synctest.Wait()
		if closed.Load() != 2 || r.Stats().Connections != 0 {
			t.Errorf("OnClose was called %d times, %d connections are left", closed.Load(), r.Stats().Connections)
		}
		close(release)
	})
}

func TestLiveness(t *testing.T) {
	t.Parallel()
	live := router.Liveness{PingInterval: 20 * time.Second, PongTimeout: 5 * time.Second}
	t.Run("a silent client that answers pings lives", func(t *testing.T) {
		inMemory(t, router.Options{Liveness: live}, func(*router.Router) {}, func(t *testing.T, r *router.Router, c *routertest.Client) {
			time.Sleep(time.Hour)
			if r.Stats().Connections != 1 {
				t.Error("the connection was closed")
			}
		})
	})
	t.Run("one that does not is closed", func(t *testing.T) {
		inMemory(t, router.Options{Liveness: live}, func(*router.Router) {}, func(t *testing.T, r *router.Router, c *routertest.Client) {
			c.IgnorePings()
			took := untilClosed(r).Round(time.Second)
			c.ExpectClose(errors.CloseNoHeartbeat)
			if took < 25*time.Second || took > 27*time.Second {
				t.Errorf("closed after %v, want 25s and at most two ticks of 625ms", took)
			}
		})
	})
	t.Run("idle", func(t *testing.T) {
		l := live
		l.IdleTimeout = time.Minute
		inMemory(t, router.Options{Liveness: l}, func(r *router.Router) {
			router.On(r, "x", func(*router.Context, struct{}) error { return nil })
		}, func(t *testing.T, r *router.Router, c *routertest.Client) {
			time.Sleep(50 * time.Second)
			c.Send("x", nil)
			time.Sleep(55 * time.Second)
			if r.Stats().Connections != 1 {
				t.Error("closed though it was not idle for a minute")
			}
			c.ExpectClose(errors.CloseNormal)
		})
	})
	t.Run("maximum age", func(t *testing.T) {
		l := live
		l.MaxAge = time.Hour
		inMemory(t, router.Options{Liveness: l}, func(*router.Router) {}, func(t *testing.T, r *router.Router, c *routertest.Client) {
			took := untilClosed(r)
			c.ExpectClose(errors.CloseGoingAway)
			if took < 54*time.Minute || took > 61*time.Minute {
				t.Errorf("closed after %v, want 54 to 60 minutes", took)
			}
		})
	})
}

func TestTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(router.Options{Limits: router.Limits{MaxTopics: 2}})
		router.RPC(r, "join", func(c *router.Context, topic string) (int, error) {
			err := c.Subscribe(topic)
			return len(c.Conn().Topics()), err
		})
		router.RPC(r, "leave", func(c *router.Context, topic string) (int, error) {
			c.Unsubscribe(topic)
			return len(c.Conn().Topics()), nil
		})
		router.On(r, "say", func(c *router.Context, m text) error { return c.Publish("a", "said", m) })
		router.On(r, "say.others", func(c *router.Context, m text) error {
			return c.Publish("a", "said", m, router.PublishOptions{Except: c.Conn().ID()})
		})
		s := routertest.New(t, r)
		a, b := s.Dial(), s.Dial()
		join := func(c *routertest.Client, topic string, want int) {
			t.Helper()
			if got := routertest.ExpectReply[int](c.Request("join", topic)); got != want {
				t.Errorf("%d topics, want %d", got, want)
			}
		}
		join(a, "a", 1)
		join(a, "a", 1) // again
		join(a, "b", 2)
		join(b, "a", 1)
		a.Request("join", "c").ExpectError(errors.ResourceExhausted)
		a.Request("join", "").ExpectError(errors.InvalidArgument)
		a.Request("join", strings.Repeat("x", 257)).ExpectError(errors.InvalidArgument)
		if r.LocalSubscribers("a") != 2 || r.Stats().Topics != 2 {
			t.Errorf("%d members, %d topics", r.LocalSubscribers("a"), r.Stats().Topics)
		}

		a.Send("say", text{"all"})
		a.Send("say.others", text{"others"})
		synctest.Wait()
		if err := r.Publish(t.Context(), "a", "said", text{"server"}); err != nil {
			t.Error(err)
		}
		expect := func(c *routertest.Client, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, f := range c.Frames() {
				got = append(got, string(f.Payload))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		expect(a, `{"text":"all"}`, `{"text":"server"}`)
		expect(b, `{"text":"all"}`, `{"text":"others"}`, `{"text":"server"}`)

		routertest.ExpectReply[int](a.Request("leave", "a"))
		routertest.ExpectReply[int](a.Request("leave", "never joined"))
		b.Send("say", text{"gone?"})
		expect(a)
		expect(b, `{"text":"gone?"}`)
		b.Vanish()
		synctest.Wait()
		if r.LocalSubscribers("a") != 0 || r.Stats().Topics != 1 {
			t.Errorf("after the end: %d members, %d topics", r.LocalSubscribers("a"), r.Stats().Topics)
		}
		if err := r.Publish(t.Context(), "a", "ERROR", nil); err == nil {
			t.Error("a reserved type was published")
		}
		if err := r.Publish(t.Context(), "a", "bad", func() {}); err == nil {
			t.Error("publishing what does not encode reported success")
		}
	})
}

// untilClosed waits until the router has no connections, and returns how long that took.
func untilClosed(r *router.Router) time.Duration {
	start := time.Now()
	for r.Stats().Connections > 0 && time.Since(start) < 2*time.Hour {
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(start)
}
