package router_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// hookFailures are the ways in which a hook can fail.
var hookFailures = map[string]func() error{
	"error": func() error { return errors.PermissionDenied.New("on purpose") },
	"panic": func() error { panic("on purpose") },
	"exit":  func() error { runtime.Goexit(); return nil },
}

// OnClose is called for exactly those hooks whose OnOpen has succeeded, in the opposite order,
// however another one fails and however the connection ends.
func TestOpenAndCloseHooksArePaired(t *testing.T) {
	t.Parallel()
	codes := map[string]string{"error": "close 1008", "panic": "close 1011", "exit": "end"}
	for _, tc := range []struct {
		name  string
		fails int // the hook whose OnOpen fails; 0: none
		want  string
	}{
		{"none fails", 0, "open 1, open 2, open 4, closed 4, closed 3, closed 1"},
		{"the first fails", 1, "open 1"},
		{"the second fails", 2, "open 1, open 2, closed 1"},
		{"the last fails", 4, "open 1, open 2, open 4, closed 3, closed 1"},
	} {
		for how, fail := range hookFailures {
			if tc.fails == 0 && how != "error" {
				continue
			}
			t.Run(tc.name+" by "+how, func(t *testing.T) {
				var log journal
				hooks := func(n int) router.Hooks {
					return router.Hooks{
						OnOpen: func(*router.Conn) error {
							log.add(fmt.Sprintf("open %d", n))
							if n == tc.fails {
								return fail()
							}
							return nil
						},
						OnClose: func(*router.Conn, router.CloseInfo) { log.add(fmt.Sprintf("closed %d", n)) },
						OnError: func(router.Fault) {},
					}
				}
				first, second, third := hooks(1), hooks(2), hooks(3)
				second.OnClose, third.OnOpen = nil, nil
				s := serveSocket(t, router.Options{OnOpen: first.OnOpen, OnClose: first.OnClose, OnError: first.OnError}, func(r *router.Router) {
					for _, h := range []router.Hooks{second, third, hooks(4)} {
						r.AddHooks(h)
					}
				})
				p := s.dial()
				if tc.fails == 0 {
					p.bye()
				} else {
					p.expect(codes[how])
					p.hangUp()
				}
				s.settled()
				if got := strings.Join(log.take(), ", "); got != tc.want {
					t.Errorf("called: %s\nwant:   %s", got, tc.want)
				}
			})
		}
	}
}

// A hook that fails at the end of a connection keeps no other from being called, and no
// connection from ending.
func TestCloseHooksThatFail(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"panic", "exit"} {
		t.Run(how, func(t *testing.T) {
			var log journal
			s := serveSocket(t, router.Options{
				OnClose: func(*router.Conn, router.CloseInfo) { log.add("closed 1") },
				OnError: func(f router.Fault) { log.add(fmt.Sprintf("%v", f.Err)) },
			}, func(r *router.Router) {
				r.AddHooks(router.Hooks{OnClose: func(*router.Conn, router.CloseInfo) { _ = hookFailures[how]() }})
				r.AddHooks(router.Hooks{OnClose: func(*router.Conn, router.CloseInfo) { log.add("closed 3") }})
			})
			p := s.dial()
			p.bye()
			s.settled()
			want := "closed 3, closed 1"
			if how == "panic" {
				want = "closed 3, panic in OnClose: on purpose, closed 1"
			}
			if got := strings.Join(log.take(), ", "); got != want {
				t.Errorf("called: %s\nwant:   %s", got, want)
			}
		})
	}
}

// All hooks for faults and for limits are called, in order.
func TestAllHooksAreCalled(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"none", "panic", "exit"} {
		t.Run(how, func(t *testing.T) {
			var log journal
			hooks := func(name string) router.Hooks {
				fail := func() {
					if f := hookFailures[how]; f != nil && name == "a" {
						_ = f()
					}
				}
				return router.Hooks{
					OnError: func(f router.Fault) { log.add(fmt.Sprintf("%s %v", name, f.Err)); fail() },
					OnLimitExceeded: func(i router.LimitInfo) {
						log.add(fmt.Sprintf("%s limit %d", name, i.Limit))
						fail()
					},
				}
			}
			first := hooks("a")
			inMemory(t, router.Options{OnError: first.OnError, OnLimitExceeded: first.OnLimitExceeded}, func(r *router.Router) {
				r.AddHooks(hooks("b"))
				router.On(r, "fault", func(*router.Context, struct{}) error { return errors.New("broken") })
				router.On(r.With(func(ingress.Handler) ingress.Handler {
					return func(c *ingress.Context) error {
						return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Limit: 7})
					}
				}), "limit", func(*router.Context, int) error { return nil })
			}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
				c.Send("fault", nil)
				c.ExpectError(errors.Internal)
				for range 2 {
					c.Send("limit", 1)
					c.ExpectError(errors.ResourceExhausted)
					synctest.Wait()
				}
				got := strings.Join(log.take(), ", ")
				want := "a broken, b broken, a limit 7, b limit 7, a limit 7, b limit 7"
				if how == "panic" {
					report := ", a panic in OnLimitExceeded: on purpose, b panic in OnLimitExceeded: on purpose"
					want = strings.ReplaceAll(want, "a limit 7", "a limit 7"+report)
				}
				if got != want {
					t.Errorf("called: %s\nwant:   %s", got, want)
				}
			})
		})
	}
}

func TestNoHooksAfterTheFirstConnection(t *testing.T) {
	t.Parallel()
	r := router.New()
	r.AddHooks(router.Hooks{})
	routertest.New(t, r).Dial()
	defer func() {
		if v := recover(); v == nil || !strings.Contains(v.(string), "AddHooks is called after the router has served a connection") {
			t.Errorf("AddHooks after a connection: %v", v)
		}
	}()
	r.AddHooks(router.Hooks{})
}

// While handshakes are refused, hooks may still be added.
func TestHooksAddedWhileHandshakesAreRefused(t *testing.T) {
	t.Parallel()
	var faults atomic.Int64
	s := serveSocket(t, router.Options{
		Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{}, errors.New("broken") },
		OnError:      func(router.Fault) {},
	}, nil)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 20 {
				p := s.connect()
				p.write([]byte(s.handshake()))
				p.response()
				p.hangUp()
			}
		})
	}
	for range 20 {
		s.r.AddHooks(router.Hooks{OnError: func(router.Fault) { faults.Add(1) }})
	}
	clients.Wait()
	before := faults.Load()
	p := s.connect()
	p.write([]byte(s.handshake()))
	if res := p.response(); res.StatusCode != 500 {
		t.Errorf("the handshake is answered %s", res.Status)
	}
	if got := faults.Load() - before; got != 20 {
		t.Errorf("%d of 20 hooks were called", got)
	}
}

// Shutdown cuts a connection off while its second OnOpen runs. Both OnClose are called, once.
func TestShutdownCutsOffAmongOpenHooks(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"succeeds": nil, "fails": errors.PermissionDenied.New("no")} {
		t.Run(name, func(t *testing.T) {
			var log journal
			synctest.Test(t, func(t *testing.T) {
				r := router.New(router.Options{
					OnOpen: func(c *router.Conn) error {
						log.add("open 1")
						return c.Subscribe(context.Background(), "a")
					},
					OnClose: func(_ *router.Conn, i router.CloseInfo) { log.add(fmt.Sprintf("closed 1 %v", i.Topics)) },
				})
				r.AddHooks(router.Hooks{
					OnOpen:  func(*router.Conn) error { time.Sleep(time.Second); log.add("open 2"); return err },
					OnClose: func(*router.Conn, router.CloseInfo) { log.add("closed 2") },
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
			})
			want := "open 1, open 2, closed 2, closed 1 [a]"
			if err != nil {
				want = "open 1, open 2, closed 1 [a]"
			}
			if got := strings.Join(log.take(), ", "); got != want {
				t.Errorf("called: %s\nwant:   %s", got, want)
			}
		})
	}
}

// OnClose gets the topics of the connection, however it ends, when others do not see it in them
// any more.
func TestCloseHookGetsTheTopics(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *socketServer, p *peer){
		"client closes":      func(_ *socketServer, p *peer) { p.bye() },
		"client disconnects": func(_ *socketServer, p *peer) { p.reset() },
		"server closes": func(_ *socketServer, p *peer) {
			p.write(textFrame(`{"type":"kick"}`))
			p.expect("close 4000")
			p.hangUp()
		},
		"too slow": func(_ *socketServer, p *peer) { p.write(textFrame(`{"type":"flood"}`)) },
		"server shuts down": func(s *socketServer, p *peer) {
			go func() { _ = s.r.Shutdown(context.Background()) }()
			p.expect("close 1001")
			p.hangUp()
		},
		"server is cut off": func(s *socketServer, _ *peer) {
			done, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.r.Shutdown(done)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "too slow" {
				takesTime(t)
			}
			var s *socketServer
			ended := make(chan router.CloseInfo, 1)
			s = serveSocket(t, router.Options{
				OnOpen: func(c *router.Conn) error { return c.Subscribe(context.Background(), "opened") },
				OnClose: func(c *router.Conn, i router.CloseInfo) {
					if got := c.Topics(); len(got) != 0 {
						t.Errorf("the connection is still in %v", got)
					}
					if n := s.r.LocalSubscribers("opened"); n != 0 {
						t.Errorf("%d members are left", n)
					}
					ended <- i
				},
				Limits: router.Limits{MaxQueued: 4 << 10},
			}, func(r *router.Router) {
				router.RPC(r, "join", func(c *router.Context, m said) (said, error) { return m, c.Subscribe(m.Text) })
				router.RPC(r, "leave", func(c *router.Context, m said) (said, error) { c.Unsubscribe(m.Text); return m, nil })
				router.On(r, "kick", func(c *router.Context, _ struct{}) error { c.Conn().Close(4000, ""); return nil })
				router.On(r, "flood", func(c *router.Context, _ struct{}) error {
					for c.Send("event", strings.Repeat("x", 1<<10)) == nil {
					}
					return nil
				})
			})
			p := s.dial()
			for _, topic := range []string{"room:a", "room:b", "room:c"} {
				p.write(topicRequest("join", topic))
				p.expect("reply 1 " + topic)
			}
			p.write(topicRequest("leave", "room:b"))
			p.expect("reply 1 room:b")
			end(s, p)
			i := poll.Receive(t, ended, "OnClose is called")
			slices.Sort(i.Topics)
			if want := []string{"opened", "room:a", "room:c"}; !slices.Equal(i.Topics, want) {
				t.Errorf("the topics are %v, want %v", i.Topics, want)
			}
		})
	}
}

func topicRequest(typ, topic string) []byte {
	return textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"},"payload":{"text":%q}}`, typ, topic))
}

// BeforePublish refuses what is published, in whatever way, up to the first error, and with a panic as well. Messages to a
// connection or a target are not published.
func TestBeforePublish(t *testing.T) {
	t.Parallel()
	var asked []string
	r := router.New()
	r.AddHooks(router.Hooks{BeforePublish: func(_ context.Context, topic string) error {
		asked = append(asked, topic)
		switch topic {
		case "closed":
			return errors.PermissionDenied.New("the room is closed")
		case "broken":
			panic("no room")
		}
		return nil
	}})
	r.AddHooks(router.Hooks{BeforePublish: func(_ context.Context, topic string) error {
		asked = append(asked, "then "+topic)
		return nil
	}})
	published := map[string]error{}
	for _, topic := range []string{"open", "closed", "broken"} {
		published[topic] = r.Publish(t.Context(), topic, "said", nil, router.PublishOptions{LocalOnly: topic == "closed"})
	}
	if err := r.AllConnections().Send(t.Context(), "said", nil); err != nil {
		t.Error(err)
	}
	if err := r.Publish(t.Context(), "", "said", nil); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("Publish to a topic without a name: %v", err)
	}
	if err := published["open"]; err != nil {
		t.Error(err)
	}
	if err := published["closed"]; errors.CodeOf(err) != errors.PermissionDenied {
		t.Errorf("Publish returned %v, not the error of the hook", err)
	}
	if err := published["broken"]; errors.CodeOf(err) != errors.Internal || !strings.Contains(err.Error(), "no room") {
		t.Errorf("Publish returned %v after a panic of the hook", err)
	}
	if want := []string{"open", "then open", "closed", "broken"}; !slices.Equal(asked, want) {
		t.Errorf("the hooks were asked for %q, not %q", asked, want)
	}
	if n := r.Stats().Published; n != 1 {
		t.Errorf("%d messages count as published, not 1", n)
	}
}

// Shutdown waits for the work of OnShutdown hooks, which can still publish; not for longer than its context, and a hook
// that panics keeps no other from its work.
func TestOnShutdown(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]time.Duration{"in time": time.Second, "too long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := memory.NewBroker()
				watching := router.New(router.Options{Backend: adapters.Backend{Broker: shared}})
				router.RPC(watching, "join", func(c *router.Context, m text) (text, error) { return m, c.Subscribe("news") })
				c := routertest.New(t, watching).Dial()
				routertest.ExpectReply[text](c.Request("join", text{}))
				var faults atomic.Int64
				r := router.New(router.Options{
					Backend: adapters.Backend{Broker: shared}, OnError: func(router.Fault) { faults.Add(1) },
				})
				r.AddHooks(router.Hooks{OnShutdown: func(context.Context) { panic("on purpose") }})
				r.AddHooks(router.Hooks{OnShutdown: func(ctx context.Context) {
					select {
					case <-time.After(work):
					case <-ctx.Done():
					}
					_ = r.Publish(context.WithoutCancel(ctx), "news", "said", text{name})
				}})
				routertest.New(t, r).Dial()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begun := time.Now()
				if err := r.Shutdown(ctx); err != nil {
					t.Error(err)
				}
				if took, want := time.Since(begun), min(work, 9*time.Second); took != want {
					t.Errorf("Shutdown took %v, want %v", took, want)
				}
				if said := routertest.ExpectEvent[text](c, "said"); said.Text != name || faults.Load() != 1 {
					t.Errorf("%+v, %d faults", said, faults.Load())
				}
			})
		})
	}
}

// A hook that ignores its context is not waited for.
func TestOnShutdownThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New()
		release := make(chan struct{})
		r.AddHooks(router.Hooks{OnShutdown: func(context.Context) { <-release }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := r.Shutdown(ctx); time.Since(begun) != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown took %v: %v", time.Since(begun), err)
		}
		close(release)
	})
}
