package docs_test

import (
	"context"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The application of coming-from, as it is shown there.

type (
	JoinRoom struct {
		Room string `json:"room" validate:"required,max=40"`
	}
	Say struct {
		Text string `json:"text" validate:"required,max=500"`
	}
	Said struct {
		From string `json:"from"`
		Text string `json:"text"`
	}
)

var room = ingress.NewKey[string]() // the room of a connection

var errNoRoom = errors.FailedPrecondition.New("join a room first")

func newRooms() *router.Router {
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: req.URL.Query().Get("name")}, nil
		},
	})
	said := router.Declare[Said](r, "said")
	router.RPC(r, "join", func(c *router.Context, q JoinRoom) (struct{}, error) {
		if old, ok := room.Get(c.Identity); ok {
			c.Unsubscribe("room:" + old)
		}
		room.Set(c.Identity, q.Room)
		return struct{}{}, c.Subscribe("room:" + q.Room)
	})
	router.On(r, "say", func(c *router.Context, m Say) error {
		in, ok := room.Get(c.Identity)
		if !ok {
			return errNoRoom
		}
		return said.Publish(c, "room:"+in, Said{From: c.Identity.User, Text: m.Text})
	})
	return r
}

// What the pages add to it.

func addOthers(r *router.Router, toOthers router.Event[Said]) {
	router.On(r, "say.others", func(c *router.Context, m Say) error {
		in, _ := room.Get(c.Identity)
		return toOthers.Publish(c, "room:"+in, Said{From: c.Identity.User, Text: m.Text}, router.PublishOptions{Except: c.Conn().ID()})
	})
}

func clock(ctx context.Context, r *router.Router, said router.Event[Said]) {
	for now := range ticks(ctx) { // any goroutine may publish and send
		_ = said.Publish(ctx, "room:lobby", Said{From: "clock", Text: now.Format(time.TimeOnly)})
	}
}

func addLimit(r *router.Router) {
	store := memory.NewStore()
	r.Use(ratelimit.New(limit.New(store, limit.TokenBucket{
		Capacity: 200, Refill: 100, Per: time.Second,
	}), ratelimit.PerUserPerType))
}

// ticks has one tick.
func ticks(context.Context) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) { yield(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)) }
}

// The application and what is added to it do what coming-from says.
func TestComingFromApplication(t *testing.T) {
	r := newRooms()
	addLimit(r)
	toOthers := router.Declare[Said](r, "said.others")
	addOthers(r, toOthers)
	s := routertest.New(t, r)
	dial := func(name string) *routertest.Client { return s.Dial(routertest.DialOptions{Query: "name=" + name}) }
	ann, bob, cid := dial("ann"), dial("bob"), dial("cid")
	expect := func(c *routertest.Client, typ string, want Said) {
		t.Helper()
		if got := routertest.ExpectEvent[Said](c, typ); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	ann.Request("say", Say{"hi"}).ExpectError(errors.FailedPrecondition)
	for c, name := range map[*routertest.Client]string{ann: "lobby", bob: "lobby", cid: "cellar"} {
		routertest.ExpectReply[struct{}](c.Request("join", JoinRoom{name}))
	}
	ann.Send("say", Say{"hi"})
	expect(ann, "said", Said{"ann", "hi"})
	expect(bob, "said", Said{"ann", "hi"})
	ann.Send("say.others", Say{"you"})
	expect(bob, "said.others", Said{"ann", "you"})
	clock(t.Context(), r, toOthers)
	expect(ann, "said.others", Said{"clock", "09:00:00"})
	expect(bob, "said.others", Said{"clock", "09:00:00"})
	routertest.ExpectReply[struct{}](bob.Request("join", JoinRoom{"cellar"}))
	bob.Send("say", Say{"dark"})
	expect(cid, "said", Said{"bob", "dark"})
}
