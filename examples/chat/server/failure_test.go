package server

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/routertest"
)

// A faultyPresence fails to add members while it is out of order. It then also loses the
// member with the same ID, which a Presence may do.
type faultyPresence struct {
	pubsub.Presence
	fails atomic.Bool
}

func (p *faultyPresence) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if p.fails.Load() {
		p.Leave(topic, m.ID)
		return errors.New("out of order")
	}
	return p.Presence.Join(ctx, topic, m)
}

// A stalledLog answers nothing while it stalls.
type stalledLog struct {
	pubsub.Log
	stalls atomic.Bool
}

// withStalledLog serves a chat whose history can be made to stall.
func withStalledLog(t *testing.T) (*routertest.Server, *stalledLog) {
	backend := memory.New()
	log := &stalledLog{Log: backend.Broker.(pubsub.Log)}
	backend.Broker = log
	return routertest.New(t, newChat(backend).Router), log
}

func (l *stalledLog) Read(ctx context.Context, topic string, h pubsub.History, r pubsub.ReadOptions) (pubsub.Page, error) {
	if l.stalls.Load() {
		<-ctx.Done()
		return pubsub.Page{}, ctx.Err()
	}
	return l.Log.Read(ctx, topic, h, r)
}

func (l *stalledLog) Append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	if l.stalls.Load() {
		<-ctx.Done()
		return pubsub.Position{}, ctx.Err()
	}
	return l.Log.Append(ctx, m, h, id)
}

func heard(c *routertest.Client, typ string) (texts []string) {
	synctest.Wait()
	for _, f := range c.Frames() {
		if f.Type == typ {
			texts = append(texts, string(f.Payload))
		}
	}
	return texts
}

// A tab that has lost its seat is in no room: it receives no messages and cannot send. A tab
// whose move fails stays in its room.
func TestTabWithoutSeatIsInNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		presence := &faultyPresence{Presence: backend.Presence}
		backend.Presence = presence
		s := routertest.New(t, newChat(backend).Router)
		ann, bob, eve := tab(s, "ann"), tab(s, "bob"), tab(s, "eve")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "lobby", "Bob")
		enter(t, eve, "garden", "Eve")

		presence.fails.Store(true)
		bob.Request("room.join", Join{Room: "garden", Name: "Bob"}).ExpectError(errors.Unavailable)
		heard(bob, "")
		say(t, ann, "in the lobby")
		say(t, eve, "in the garden")
		if got := heard(bob, "chat.message"); len(got) != 1 || !strings.Contains(got[0], "in the lobby") {
			t.Errorf("still in the lobby, Bob gets %v", got)
		}
		if got := heard(ann, "member.left"); len(got) > 0 {
			t.Errorf("Ann gets the event that %v left", got)
		}

		bob.Request("room.join", Join{Room: "lobby", Name: "Robert"}).ExpectError(errors.Unavailable)
		presence.fails.Store(false)
		if got := heard(ann, "member.left"); len(got) != 1 {
			t.Errorf("Ann gets %v when Bob leaves", got)
		}
		bob.Request("chat.send", message("I am not here")).ExpectError(errors.FailedPrecondition)
		heard(bob, "")
		say(t, ann, "secret")
		say(t, eve, "secret")
		if got := heard(bob, "chat.message"); len(got) > 0 {
			t.Errorf("in no room, Bob gets %v", got)
		}
		if got := names(enter(t, bob, "garden", "Bob").Members); !slices.Equal(got, []string{"Bob", "Eve"}) {
			t.Errorf("at last %v are in the garden", got)
		}
	})
}

// A failed join moves no member.
func TestJoinWithoutHistoryChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, history := withStalledLog(t)
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "lobby", "Bob")
		history.stalls.Store(true)
		bob.Request("room.join", Join{Room: "garden", Name: "Bob"}).ExpectError(errors.Unavailable)
		history.stalls.Store(false)
		say(t, bob, "still here")
		if got := heard(ann, "chat.message"); len(got) != 1 {
			t.Errorf("Ann receives %v", got)
		}
	})
}

// While the backend stalls, requests time out concurrently, not one after the other.
func TestStalledBackendIsAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, history := withStalledLog(t)
		var tabs []*routertest.Client
		for _, name := range []string{"ann", "bob", "eve", "joe", "kim", "lee"} {
			c := tab(s, name)
			enter(t, c, "lobby", name)
			tabs = append(tabs, c)
		}
		history.stalls.Store(true)
		before := time.Now()
		var asked []*routertest.Request
		for _, c := range tabs {
			asked = append(asked, c.Request("chat.send", message("hello?")))
		}
		for _, q := range asked {
			q.ExpectError(errors.Unavailable)
		}
		if took := time.Since(before); took > 2*storeTime {
			t.Errorf("%d messages were refused after %v", len(asked), took)
		}
	})
}

// If a tab has two names, other tabs always see the same one.
func TestTwoNamesOfOneTabDoNotAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := sharedInMemory()
		chat := newChat(backend)
		s := routertest.New(t, chat.Router)
		ann := tab(s, "ann")
		enter(t, ann, "lobby", "Ann")
		another(t, backend, "b", map[string]string{"conn1": "Bob", "conn2": "Robert"})
		chat.rooms.sweep(t.Context())
		heard(ann, "")
		for range 20 {
			chat.rooms.sweep(t.Context())
		}
		if got := heard(ann, "room.state"); len(got) > 0 {
			t.Errorf("nothing has changed, and Ann gets %v", got)
		}
	})
}
