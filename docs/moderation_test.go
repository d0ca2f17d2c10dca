package docs_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of moderation.md.

type (
	Removal struct {
		User string `json:"user" validate:"required"`
		Room string `json:"room" validate:"required"`
	}
	Message struct {
		Room string `json:"room" validate:"required"`
		Pos  string `json:"pos" validate:"required"`
	}
	Ban struct {
		User    string `json:"user" validate:"required"`
		Minutes int    `json:"minutes" validate:"min=1,max=10080"`
	}
)

// roomRights are what an application keeps in its database.
type roomRights struct {
	mu   sync.Mutex
	gone map[[2]string]bool
}

func (r *roomRights) Forget(_ context.Context, user, room string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[[2]string{user, room}] = true
	return nil
}

func (r *roomRights) Check(user, room string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone[[2]string{user, room}] {
		return errors.PermissionDenied.New("you were removed from this room")
	}
	return nil
}

func moderated() *router.Router {
	rooms := &roomRights{gone: map[[2]string]bool{}}
	store := memory.NewStore()
	bans := ratelimit.NewBans(store)
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			user := ingress.Token(req)
			return ingress.Identity{User: user, Roles: []string{strings.TrimRight(user, "0123456789")}}, nil
		},
		Gate: gate.New(store, gate.Options{Banned: bans.Banned}),
	})
	r.Use(bans.Middleware)
	r.History("room:*")
	router.RPC(r, "room.enter", func(c *router.Context, q Enter) (struct{}, error) {
		if err := rooms.Check(c.Identity.User, q.Room); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.Join("room:"+q.Room, nil)
	})
	router.RPC(r, "chat.say", func(c *router.Context, text string) (struct{}, error) {
		return struct{}{}, c.Publish("room:lobby", "chat.said", text)
	})
	moderators := r.With(ingress.RequireRole("moderator"))

	router.RPC(moderators, "room.remove", func(c *router.Context, q Removal) (struct{}, error) {
		if err := rooms.Forget(c, q.User, q.Room); err != nil { // what "room.enter" asks; before Revoke
			return struct{}{}, err
		}
		return struct{}{}, r.Revoke(c, router.Right{Tenant: c.Identity.Tenant, User: q.User, Topics: "room:" + q.Room})
	})
	router.RPC(moderators, "message.remove", func(c *router.Context, q Message) (struct{}, error) {
		return struct{}{}, r.Redact(c, "room:"+q.Room, q.Pos, map[string]string{"removedBy": c.Identity.User}) // q.Pos: meta.pos
	})
	router.RPC(moderators, "user.ban", func(c *router.Context, q Ban) (struct{}, error) {
		who := ingress.Identity{Tenant: c.Identity.Tenant, User: q.User}
		if err := bans.Ban(c, netip.Addr{}, who, time.Duration(q.Minutes)*time.Minute); err != nil {
			return struct{}{}, err
		}
		_, err := r.User(who.Tenant, who.User).Close(c, errors.CloseTooManyRequests, "banned by a moderator")
		return struct{}{}, err
	})
	return r
}

// A removed user gets nothing more of the room, on any device, and cannot come back, neither by entering nor by the ticket. A
// banned one is away for the time.
func TestModeration(t *testing.T) {
	r := moderated()
	s := routertest.New(t, r)
	as := func(user string) *routertest.Client { return s.Dial(routertest.DialOptions{Token: user}) }
	moderator, phone, laptop := as("moderator1"), as("ann"), as("ann")
	enter := func(c *routertest.Client) *routertest.Request { return c.Request("room.enter", Enter{Room: "lobby"}) }
	type subscribed struct {
		Topic  string `json:"topic"`
		Pos    string `json:"pos"`
		Ticket string `json:"ticket"`
	}
	var ticket subscribed
	for _, c := range []*routertest.Client{phone, laptop} {
		routertest.ExpectReply[struct{}](enter(c))
		ticket = routertest.ExpectEvent[subscribed](c, "$ws:subscribed")
	}
	ann := Removal{User: "ann", Room: "lobby"}
	phone.Request("room.remove", ann).ExpectError(errors.PermissionDenied)
	routertest.ExpectReply[struct{}](moderator.Request("room.remove", ann))
	for _, c := range []*routertest.Client{phone, laptop} {
		if got := routertest.ExpectEvent[subscribed](c, "$ws:unsubscribed"); got.Topic != "room:lobby" {
			t.Errorf("unsubscribed from %q", got.Topic)
		}
		enter(c).ExpectError(errors.PermissionDenied)
	}
	if members, err := r.Presence(t.Context(), "room:lobby"); err != nil || len(members) > 0 {
		t.Errorf("present: %v, %v", members, err)
	}
	if err := r.Publish(t.Context(), "room:lobby", "chat.said", "to nobody"); err != nil {
		t.Fatal(err)
	}
	type resumed struct {
		Topics []struct {
			Resumed bool   `json:"resumed"`
			Reason  string `json:"reason"`
		} `json:"topics"`
	}
	again := as("ann")
	answer := routertest.ExpectReply[resumed](again.Request("$ws:resume", map[string]any{
		"topics": []any{map[string]string{"ticket": ticket.Ticket, "pos": ticket.Pos}},
	}))
	if len(answer.Topics) != 1 || answer.Topics[0].Resumed || answer.Topics[0].Reason != "denied" {
		t.Errorf("the ticket of before: %+v", answer)
	}
	for _, c := range []*routertest.Client{phone, laptop, again} {
		for _, f := range c.Frames() {
			if f.Type == "chat.said" {
				t.Errorf("a user who was removed got %v", f)
			}
		}
	}

	routertest.ExpectReply[struct{}](moderator.Request("user.ban", Ban{User: "ann", Minutes: 10}))
	for _, c := range []*routertest.Client{phone, laptop, again} {
		c.ExpectClose(errors.CloseTooManyRequests)
	}
	if _, res, err := s.TryDial(routertest.DialOptions{Token: "ann"}); err == nil || res == nil || res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a banned user connects: %v, %v", res, err)
	}
	routertest.ExpectReply[struct{}](as("bob").Request("room.enter", Enter{Room: "lobby"}))
}
