package router_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type membership struct {
	Topic string `json:"topic"`
	Until int    `json:"until"` // seconds from now on; 0: none
	From  bool   `json:"from"`  // the beginning of the log
}

type ticketed struct {
	Topic  string `json:"topic"`
	Pos    string `json:"pos"`
	Ticket string `json:"ticket"`
}

type resumedAs struct {
	Topics []struct {
		Resumed  bool   `json:"resumed"`
		Replayed int    `json:"replayed"`
		Joined   bool   `json:"joined"`
		Reason   string `json:"reason"`
		Ticket   string `json:"ticket"`
	} `json:"topics"`
}

// limited is a router with memberships that end.
func limited(t *testing.T) (*router.Router, *routertest.Server) {
	r := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker()}})
	r.History("log:*")
	until := func(m membership) (o []router.SubscribeOptions) {
		if m.Until != 0 {
			o = append(o, router.SubscribeOptions{Until: time.Now().Add(time.Duration(m.Until) * time.Second)})
		}
		return o
	}
	router.RPC(r, "subscribe", func(c *router.Context, m membership) (bool, error) {
		if m.From {
			return true, c.SubscribeFrom(m.Topic, "", until(m)...)
		}
		return true, c.Subscribe(m.Topic, until(m)...)
	})
	router.RPC(r, "join", func(c *router.Context, m membership) (bool, error) {
		if err := c.Subscribe(m.Topic, until(m)...); err != nil {
			return false, err
		}
		return true, c.Join(m.Topic, "here")
	})
	return r, routertest.New(t, r)
}

func subscribe(c *routertest.Client, m membership) {
	routertest.ExpectReply[bool](c.Request("subscribe", m))
}

// A membership ends at its time, with presence, and its client is told; one that is subscribed again with another time ends
// then, and one without a time lasts.
func TestMembershipsEnd(t *testing.T) {
	for _, topic := range []string{"room", "log:room"} {
		t.Run(topic, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, s := limited(t)
				short, longer, lasting, joined := s.Dial(), s.Dial(), s.Dial(), s.Dial()
				subscribe(short, membership{Topic: topic, Until: 10})
				subscribe(longer, membership{Topic: topic, Until: 10})
				subscribe(longer, membership{Topic: topic, Until: 30})
				subscribe(longer, membership{Topic: topic}) // changes nothing
				subscribe(lasting, membership{Topic: topic})
				routertest.ExpectReply[bool](joined.Request("join", membership{Topic: topic, Until: 10}))
				members := func(want, present int) {
					t.Helper()
					synctest.Wait()
					if got := r.LocalSubscribers(topic); got != want {
						t.Errorf("%d members, want %d", got, want)
					}
					if list, err := r.Presence(t.Context(), topic); err != nil || len(list) != present {
						t.Errorf("present: %v, %v", list, err)
					}
				}
				time.Sleep(10*time.Second - time.Nanosecond)
				members(4, 1)
				time.Sleep(time.Nanosecond)
				members(2, 0)
				for _, c := range []*routertest.Client{short, joined} {
					if e := routertest.ExpectEvent[ticketed](c, "$ws:unsubscribed"); e.Topic != topic {
						t.Errorf("unsubscribed from %q", e.Topic)
					}
				}
				time.Sleep(20 * time.Second)
				members(1, 0)
				routertest.ExpectEvent[ticketed](longer, "$ws:unsubscribed")
				time.Sleep(time.Hour)
				members(1, 0)
				for _, f := range lasting.Frames() {
					if f.Type == "$ws:unsubscribed" {
						t.Errorf("a membership without an end has ended")
					}
				}
				short.Request("subscribe", membership{Topic: topic, Until: -1}).ExpectError(errors.PermissionDenied)
			})
		})
	}
}

// A ticket resumes a membership that ends until then, and not later; the resumed one ends then, too.
func TestTicketsEndWithTheRight(t *testing.T) {
	for name, kind := range map[string]membership{"subscribed": {}, "from": {From: true}, "changed": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, s := limited(t)
				const topic = "log:room"
				c := s.Dial()
				kind.Topic, kind.Until = topic, 60
				if name == "changed" {
					kind.Until = 3600
				}
				subscribe(c, kind)
				has := routertest.ExpectEvent[ticketed](c, "$ws:subscribed")
				if name == "changed" {
					subscribe(c, membership{Topic: topic, Until: 60})
					has = routertest.ExpectEvent[ticketed](c, "$ws:subscribed")
				}
				c.Vanish()
				resume := func() *routertest.Client {
					c := s.Dial()
					answer := routertest.ExpectReply[resumedAs](c.Request("$ws:resume", map[string]any{
						"topics": []any{map[string]string{"ticket": has.Ticket, "pos": has.Pos}},
					}))
					if a := answer.Topics[0]; a.Resumed {
						has.Ticket = a.Ticket
					} else if a.Reason != "denied" {
						t.Errorf("not resumed: %+v", a)
					} else {
						c.Close()
						return nil
					}
					return c
				}
				time.Sleep(20 * time.Second)
				c = resume()
				if c == nil {
					t.Fatal("not resumed within the time")
				}
				c.Vanish()
				time.Sleep(20 * time.Second)
				if c = resume(); c == nil { // with the ticket of the resume
					t.Fatal("not resumed a second time")
				}
				time.Sleep(20*time.Second - time.Millisecond)
				synctest.Wait()
				if n := r.LocalSubscribers(topic); n != 1 {
					t.Errorf("%d members before the end", n)
				}
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				if n := r.LocalSubscribers(topic); n != 0 {
					t.Errorf("%d members after the end", n)
				}
				routertest.ExpectEvent[ticketed](c, "$ws:unsubscribed")
				if resume() != nil {
					t.Error("resumed after the end")
				}
			})
		})
	}
}

// Memberships end while their connections subscribe, unsubscribe and end: no timer and no member is left.
func TestMembershipsThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := limited(t)
		for i := range 30 {
			c := s.Dial()
			for j := range 10 {
				c.Request("subscribe", membership{Topic: fmt.Sprint([]string{"room", "log:"}[j%2], j), Until: 1 + (i+j)%3})
			}
			if i%2 == 0 {
				go func() {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					c.Vanish()
				}()
			}
		}
		time.Sleep(2 * time.Second)
		_, _ = r.AllConnections().Unsubscribe(context.Background(), "room0", "room2", "log:1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for j := range 10 {
			if n := r.LocalSubscribers(fmt.Sprint([]string{"room", "log:"}[j%2], j)); n != 0 {
				t.Errorf("%d members are left", n)
			}
		}
	})
}
