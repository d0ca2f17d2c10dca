package docs_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of topics.md.

type (
	Enter struct {
		Room string `json:"room" validate:"required,max=40"`
	}
	Chat struct {
		Room string `json:"room" validate:"required,max=40"`
		Text string `json:"text" validate:"required,max=500"`
	}
	Position struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	Open struct {
		Board string `json:"board" validate:"required,max=40"`
		All   bool   `json:"all,omitzero"`
	}
	Member struct {
		Colour string `json:"colour"`
	}
)

func rooms() *router.Router {
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
	})
	r.History("room:*", router.HistoryOptions{Messages: 1000, Age: time.Hour})
	r.History("board:*")
	said := router.Declare[Said](r, "chat.said")

	router.RPC(r, "room.enter", func(c *router.Context, q Enter) (struct{}, error) {
		topic := "room:" + q.Room
		if err := c.Join(topic, Member{Colour: "teal"}); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.WatchPresence(topic, router.WatchOptions{ByUser: true})
	})
	router.RPC(r, "room.leave", func(c *router.Context, q Enter) (struct{}, error) {
		c.Unsubscribe("room:" + q.Room)
		return struct{}{}, nil
	})
	router.RPC(r, "chat.say", func(c *router.Context, m Chat) (struct{}, error) {
		return struct{}{}, said.Publish(c, "room:"+m.Room, Said{c.Identity.User, m.Text})
	})

	router.RPC(r, "map.open", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Subscribe("map")
	})
	router.On(r, "cursor.move", func(c *router.Context, p Position) error {
		return c.Publish("map", "cursor.moved", p, router.PublishOptions{
			Overflow: router.OverflowLatestOnly, // a page that reads slowly needs no older position
			Key:      c.Conn().ID(),             // of the same cursor
			Except:   c.Conn().ID(),
		})
	})
	router.RPC(r, "board.open", func(c *router.Context, q Open) (struct{}, error) {
		topic := "board:" + q.Board
		if q.All {
			c.Unsubscribe(topic) // SubscribeFrom is refused for a member
			if err := c.SubscribeFrom(topic, ""); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, errors.Join(
			c.Join(topic, nil), // after SubscribeFrom; only for presence
			c.WatchPresence(topic, router.WatchOptions{ByUser: true}),
			c.Subscribe("cursors:"+q.Board),
		)
	})
	return r
}

// news publishes from outside of a handler.
func news(ctx context.Context, r *router.Router) error {
	return r.Publish(ctx, "room:lobby", "chat.said", Said{"the server", "Good morning"})
}

func signOut(ctx context.Context, r *router.Router) (int, error) {
	n, err := r.User("", "ann").Close(ctx, errors.CloseUnauthenticated, "signed out")
	return n, err
}

func TestTopicsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rooms()
		s := routertest.New(t, r)
		ann, bob := s.Dial(routertest.DialOptions{Token: "ann"}), s.Dial(routertest.DialOptions{Token: "bob"})
		for _, c := range []*routertest.Client{ann, bob} {
			routertest.ExpectReply[struct{}](c.Request("room.enter", Enter{"lobby"}))
			c.ExpectAny("$ws:presence")
			routertest.ExpectReply[struct{}](c.Request("map.open", nil))
		}
		routertest.ExpectReply[struct{}](ann.Request("chat.say", Chat{"lobby", "hi"}))
		for _, c := range []*routertest.Client{ann, bob} {
			if got := routertest.ExpectEvent[Said](c, "chat.said"); got != (Said{"ann", "hi"}) {
				t.Errorf("got %+v", got)
			}
		}
		ann.Send("cursor.move", Position{3, 4})
		routertest.ExpectEvent[Position](bob, "cursor.moved")
		if err := news(t.Context(), r); err != nil {
			t.Error(err)
		}
		routertest.ExpectEvent[Said](bob, "chat.said")

		routertest.ExpectReply[struct{}](bob.Request("room.leave", Enter{"lobby"}))
		if n := r.LocalSubscribers("room:lobby"); n != 1 {
			t.Errorf("%d members are left", n)
		}
		if n, err := signOut(t.Context(), r); n != 1 || err != nil {
			t.Errorf("%d connections are closed: %v", n, err)
		}
		ann.ExpectClose(errors.CloseUnauthenticated)
	})
}

func TestLateJoinersGetWhatIsKept(t *testing.T) {
	r := rooms()
	s := routertest.New(t, r)
	if err := r.Publish(t.Context(), "board:1", "chat.said", Said{"ann", "early"}); err != nil {
		t.Fatal(err)
	}
	bob := s.Dial(routertest.DialOptions{Token: "bob"})
	for range 2 { // the second time it is a member
		opened := bob.Request("board.open", Open{Board: "1", All: true})
		if got := routertest.ExpectEvent[Said](bob, "chat.said"); got != (Said{"ann", "early"}) {
			t.Errorf("got %+v", got)
		}
		routertest.ExpectReply[struct{}](opened)
	}
	routertest.ExpectReply[struct{}](bob.Request("board.open", Open{Board: "1"}))
}
