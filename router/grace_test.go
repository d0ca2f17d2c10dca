package router_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

const grace = 5 * time.Second

// watched are two servers of one deployment, with a client that watches the users of a room.
type watched struct {
	*testing.T
	routers []*router.Router
	servers []*routertest.Server
	watcher *routertest.Client
}

func forWatched(t *testing.T, test func(w *watched)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t}
		b := adapters.Backend{Broker: memory.NewBroker(), Presence: memory.NewPresence()}
		for range 2 {
			r := router.New(router.Options{Backend: b, Authenticate: asUser, Addressing: router.AddressingOptions{Enabled: true}})
			r.History("log:*")
			router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) {
				return true, c.Join(topic, nil, router.JoinOptions{Grace: grace})
			})
			router.RPC(r, "join now", func(c *router.Context, topic string) (bool, error) { return true, c.Join(topic, nil) })
			router.RPC(r, "leave", func(c *router.Context, topic string) (bool, error) { c.Unsubscribe(topic); return true, nil })
			router.RPC(r, "watch", func(c *router.Context, topic string) (bool, error) {
				if err := c.Subscribe(topic); err != nil {
					return false, err
				}
				return true, c.WatchPresence(topic, router.WatchOptions{ByUser: true})
			})
			w.routers, w.servers = append(w.routers, r), append(w.servers, routertest.New(t, r))
		}
		w.watcher = w.dial(0, "watcher")
		routertest.ExpectReply[bool](w.watcher.Request("watch", "room"))
		w.usersChanged()
		test(w)
	})
}

func (w *watched) dial(i int, user string) *routertest.Client {
	return w.servers[i].Dial(routertest.DialOptions{Header: map[string][]string{"X-User": {user}}})
}

func (w *watched) join(i int, user string) *routertest.Client {
	w.Helper()
	c := w.dial(i, user)
	routertest.ExpectReply[bool](c.Request("join", "room"))
	return c
}

// usersChanged are the users that have joined (+) and left (-) for the one that watches.
func (w *watched) usersChanged() (all []string) {
	w.Helper()
	time.Sleep(time.Second / 2) // changes come together
	synctest.Wait()
	for _, f := range w.watcher.Frames() {
		type user struct {
			User string `json:"user"`
		}
		var p struct {
			Joined []user `json:"joined"`
			Left   []user `json:"left"`
		}
		if err := json.Unmarshal(f.Payload, &p); f.Type != "$ws:presence" || err != nil {
			continue
		}
		for _, u := range p.Joined {
			all = append(all, "+"+u.User)
		}
		for _, u := range p.Left {
			all = append(all, "-"+u.User)
		}
	}
	return all
}

func (w *watched) expectChanges(what string, want ...string) {
	w.Helper()
	if got := w.usersChanged(); !slices.Equal(got, want) {
		w.Errorf("%s: the changes are %q, want %q", what, got, want)
	}
}

// A user that is back within the grace has neither left nor joined, whatever server it comes back to; one that is not has left
// then.
func TestGrace(t *testing.T) {
	forWatched(t, func(w *watched) {
		c := w.join(1, "ann")
		w.expectChanges("the first connection", "+ann")
		for _, back := range []int{1, 0, 1} {
			c.Vanish()
			w.expectChanges("the connection is lost")
			c = w.join(back, "ann")
			w.expectChanges("the user is back")
			time.Sleep(2 * grace)
			w.expectChanges("later")
			if list, err := w.routers[0].Presence(w.Context(), "room"); err != nil || len(list) != 1 {
				w.Errorf("listed are %v, %v", list, err)
			}
		}
		c.Vanish()
		time.Sleep(grace - time.Second)
		w.expectChanges("just before the end of the grace")
		time.Sleep(time.Second)
		w.expectChanges("the grace is over", "-ann")
	})
}

// Back on the same server, the entry of the lost connection goes at once.
func TestGraceListsTheUserOnce(t *testing.T) {
	forWatched(t, func(w *watched) {
		w.join(1, "ann").Vanish()
		synctest.Wait() // the server has seen it
		w.join(1, "bob")
		w.join(1, "ann")
		synctest.Wait()
		if list, err := w.routers[0].Presence(w.Context(), "room"); err != nil || len(list) != 2 {
			w.Errorf("listed are %v, %v", list, err)
		}
	})
}

// A member that has not lost its connection leaves at once, and so does one without a grace.
func TestNoGraceForThoseThatLeave(t *testing.T) {
	leave := map[string]func(w *watched, c *routertest.Client){
		"unsubscribes": func(w *watched, c *routertest.Client) { routertest.ExpectReply[bool](c.Request("leave", "room")) },
		"closes":       func(w *watched, c *routertest.Client) { c.Close() },
		"joins again without grace": func(w *watched, c *routertest.Client) {
			routertest.ExpectReply[bool](c.Request("join now", "room"))
			c.Vanish()
		},
		"is closed": func(w *watched, c *routertest.Client) {
			if _, err := w.routers[0].User("", "ann").Close(w.Context(), 4001, "signed out"); err != nil {
				w.Error(err)
			}
		},
		"is revoked": func(w *watched, c *routertest.Client) {
			if err := w.routers[0].Revoke(w.Context(), router.Right{User: "ann", Topics: "room"}); err != nil {
				w.Error(err)
			}
		},
		"is on a server that ends": func(w *watched, c *routertest.Client) {
			c.Vanish()
			synctest.Wait()
			if err := w.routers[1].Shutdown(w.Context()); err != nil {
				w.Error(err)
			}
		},
	}
	for what, leave := range leave {
		t.Run(what, func(t *testing.T) {
			forWatched(t, func(w *watched) {
				c := w.join(1, "ann")
				w.expectChanges("joined", "+ann")
				leave(w, c)
				w.expectChanges("left", "-ann")
			})
		})
	}
}

// The grace outlives a resume: it is in the ticket.
func TestGraceOfAResumedMember(t *testing.T) {
	forWatched(t, func(w *watched) {
		routertest.ExpectReply[bool](w.watcher.Request("watch", "log:room"))
		c := w.dial(1, "ann")
		routertest.ExpectReply[bool](c.Request("join", "log:room"))
		routertest.ExpectEvent[ticketed](c, "$ws:subscribed")
		ticket := routertest.ExpectEvent[ticketed](c, "$ws:subscribed") // with what it has joined with
		w.expectChanges("joined", "+ann")
		c.Vanish()
		c = w.dial(1, "ann")
		got := routertest.ExpectReply[resumedAs](c.Request("$ws:resume", map[string]any{"topics": []ticketed{ticket}}))
		if !got.Topics[0].Joined {
			w.Fatalf("%+v", got)
		}
		w.expectChanges("resumed")
		c.Vanish()
		time.Sleep(grace - time.Second)
		w.expectChanges("lost")
		time.Sleep(time.Second)
		w.expectChanges("the grace is over", "-ann")
	})
}

func TestGraceIsBounded(t *testing.T) {
	r := router.New()
	s := routertest.New(t, r)
	router.RPC(r, "join", func(c *router.Context, ms int64) (bool, error) {
		err := c.Join("room", nil, router.JoinOptions{Grace: time.Duration(ms) * time.Millisecond})
		if ms >= 0 && ms <= 60_000 {
			return true, err
		}
		if errors.CodeOf(err) != errors.Internal {
			t.Errorf("a grace of %d ms: %v", ms, err)
		}
		return false, nil
	})
	c := s.Dial()
	for ms, want := range map[int64]bool{0: true, 60_000: true, 60_001: false, -1: false} {
		if routertest.ExpectReply[bool](c.Request("join", ms)) != want {
			t.Errorf("a grace of %d ms", ms)
		}
	}
}
