package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/routertest"
)

func texts(messages []Message) (texts []string) {
	for _, m := range messages {
		texts = append(texts, m.Text)
	}
	return texts
}

// enterAfter joins again, with the position of the last message that the tab has.
func enterAfter(t *testing.T, c *routertest.Client, room, name, after string) Joined {
	t.Helper()
	return routertest.ExpectReply[Joined](c.Request("room.join", Join{Room: room, Name: name, After: after}))
}

// positionOf is what a page reads from a frame.
func positionOf(t *testing.T, f routertest.Frame) string {
	t.Helper()
	var frame struct{ Meta struct{ Pos string } }
	if err := json.Unmarshal(f.Raw, &frame); err != nil || frame.Meta.Pos == "" {
		t.Fatalf("%s has no position", f)
	}
	return frame.Meta.Pos
}

// A tab that comes back gets each message that it missed once: those before its join with the
// answer, and those behind it as events.
func TestTabThatComesBackMissesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		say(t, ann, "one")
		after := enter(t, bob, "lobby", "Bob").Pos
		for _, want := range [][]string{nil, {"two"}, {"three", "four"}} {
			bob.Vanish()
			for _, text := range want {
				say(t, ann, text)
			}
			bob = tab(s, "bob")
			back := enterAfter(t, bob, "lobby", "Bob", after)
			if got := texts(back.Messages); !slices.Equal(got, want) || back.Gap != "" {
				t.Errorf("Bob gets %q and gap %q, and missed %q", got, back.Gap, want)
			}
			say(t, ann, "live")
			synctest.Wait()
			var live []string
			for _, f := range bob.Frames() {
				if f.Type == "chat.message" {
					live = append(live, string(f.Payload))
					after = positionOf(t, f)
				}
			}
			if len(live) != 1 {
				t.Errorf("then Bob gets %q", live)
			}
		}
	})
}

// A busyLog does something after it was read.
type busyLog struct {
	pubsub.Log
	then atomic.Pointer[func()]
}

func (l *busyLog) Read(ctx context.Context, topic string, h pubsub.History, r pubsub.ReadOptions) (pubsub.Page, error) {
	page, err := l.Log.Read(ctx, topic, h, r)
	if then := l.then.Swap(nil); then != nil {
		(*then)()
	}
	return page, err
}

// A message that is sent while a tab joins is in the answer or comes as an event.
func TestMessageDuringJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		log := &busyLog{Log: backend.Broker.(pubsub.Log)}
		backend.Broker = log
		s := routertest.New(t, newChat(backend).Router)
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		then := func() { say(t, ann, "meanwhile") }
		log.then.Store(&then)
		joined := enter(t, bob, "lobby", "Bob")
		if n := len(joined.Messages) + len(heard(bob, "chat.message")); n != 1 {
			t.Errorf("Bob gets the message %d times", n)
		}
	})
}

// Where messages that a tab missed are not kept any more, it gets the latest ones, and that there
// is a gap.
func TestMissedTooMuch(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann := tab(s, "ann")
		after := enter(t, ann, "lobby", "Ann").Pos
		for i := range maxHistory + 1 {
			time.Sleep(perTab.Per)
			say(t, ann, fmt.Sprint(i))
			back := enterAfter(t, ann, "lobby", "Ann", after)
			if want := min(i+1, maxHistory); len(back.Messages) != want || back.Gap != map[bool]string{true: "trimmed"}[i == maxHistory] {
				t.Errorf("after %d messages the tab gets %d, and gap %q", i+1, len(back.Messages), back.Gap)
			}
		}
		ann.Request("room.join", Join{Room: "lobby", Name: "Ann", After: "nonsense"}).ExpectError(errors.InvalidArgument)
	})
}

// A message that is sent again is in the room once. That of another member with the same id is
// another message.
func TestMessageIsSentAgain(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "lobby", "Bob")
		m := message("hi")
		for _, c := range []*routertest.Client{ann, ann, bob, bob} {
			routertest.ExpectReply[Sent](c.Request("chat.send", m))
		}
		if got := heard(ann, "chat.message"); len(got) != 2 {
			t.Errorf("Ann gets %q", got)
		}
		if got := enter(t, tab(s, "eve"), "lobby", "Eve").Messages; len(got) != 2 {
			t.Errorf("the history has %v", got)
		}
	})
}

// The messages of lobbies are kept for a day, those of other rooms for an hour.
func TestHistoryEnds(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		in := func(room string) []string {
			t.Helper()
			c := tab(s, "late")
			defer c.Vanish()
			return texts(enter(t, c, room, "Late").Messages)
		}
		for _, room := range []string{"lobby", "garden"} {
			c := tab(s, room)
			enter(t, c, room, "Ann")
			say(t, c, "hi")
			c.Vanish()
		}
		for _, step := range []struct {
			after         time.Duration
			lobby, garden int
		}{{59 * time.Minute, 1, 1}, {2 * time.Minute, 1, 0}, {22 * time.Hour, 1, 0}, {2 * time.Hour, 0, 0}} {
			time.Sleep(step.after)
			if lobby, garden := in("lobby"), in("garden"); len(lobby) != step.lobby || len(garden) != step.garden {
				t.Errorf("%v later the lobby has %q, and the garden %q", step.after, lobby, garden)
			}
		}
	})
}
