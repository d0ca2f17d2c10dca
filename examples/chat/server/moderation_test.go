package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/routertest"
)

const moderatorKey = "KEYOFMODERATORS"

func moderatorTab(s *routertest.Server) *routertest.Client {
	return s.Dial(routertest.DialOptions{Token: "the-moderators-tab." + moderatorKey})
}

// twoServers runs a test with two servers of one chat.
func twoServers(t *testing.T, test func(t *testing.T, one, two *routertest.Server, sweep func())) {
	synctest.Test(t, func(t *testing.T) {
		b := sharedInMemory()
		a, c := NewChat(b, b.Limits, moderatorKey), NewChat(b, b.Limits, moderatorKey)
		test(t, routertest.New(t, a.Router), routertest.New(t, c.Router), func() {
			a.rooms.sweep(t.Context())
			c.rooms.sweep(t.Context())
			synctest.Wait()
		})
	})
}

// A message that a moderator has removed is gone: on pages that show it, and for members that come later.
func TestModeratorRemovesAMessage(t *testing.T) {
	twoServers(t, func(t *testing.T, one, two *routertest.Server, _ func()) {
		mod, ann := moderatorTab(one), tab(two, "ann")
		if !enter(t, mod, "lobby", "Mod").Moderator || enter(t, ann, "lobby", "Ann").Moderator {
			t.Error("it is not said which tab is a moderator")
		}
		say(t, ann, "good")
		say(t, ann, "bad")
		at := ""
		for at == "" {
			f := mod.ExpectAny("chat.message")
			if strings.Contains(string(f.Payload), `"bad"`) {
				at = positionOf(t, f)
			}
		}
		ann.Request("message.remove", Removed{at}).ExpectError(errors.PermissionDenied)
		routertest.ExpectReply[struct{}](mod.Request("message.remove", Removed{at}))
		type redacted struct {
			Pos string `json:"pos"`
		}
		for _, c := range []*routertest.Client{mod, ann} {
			if got := routertest.ExpectEvent[redacted](c, "$ws:redacted"); got.Pos != at {
				t.Errorf("removed at %q, want %q", got.Pos, at)
			}
		}
		joined := enter(t, tab(two, "late"), "lobby", "Late")
		if !slices.Equal(texts(joined.Messages), []string{"good"}) || !slices.Contains(joined.Removed, at) {
			t.Errorf("a member that comes later gets %v, removed %v", joined.Messages, joined.Removed)
		}
	})
}

// A member that a moderator has removed gets nothing more of the room, cannot send there, and is listed on no server.
func TestModeratorRemovesAMember(t *testing.T) {
	twoServers(t, func(t *testing.T, one, two *routertest.Server, sweep func()) {
		mod, ann := moderatorTab(one), tab(two, "ann")
		id := enter(t, ann, "lobby", "Ann").You
		enter(t, mod, "lobby", "Mod")
		ann.Request("member.remove", Other{id}).ExpectError(errors.PermissionDenied)
		routertest.ExpectReply[struct{}](mod.Request("member.remove", Other{id}))
		say(t, mod, "without Ann")
		ann.Request("chat.send", message("still here?")).ExpectError(errors.FailedPrecondition)
		for _, f := range ann.Frames() {
			if f.Type == "chat.message" {
				t.Errorf("a member that was removed gets %s", f.Raw)
			}
		}
		sweep()
		for _, s := range []*routertest.Server{one, two} {
			if got := names(enter(t, tab(s, "late"), "lobby", "Late").Members); slices.Contains(got, "Ann") {
				t.Errorf("here are %v", got)
			}
		}
		enter(t, ann, "lobby", "Ann") // it may come back
		say(t, ann, "hello again")
	})
}

// A member that a moderator has banned is away for ten minutes.
func TestModeratorBansAMember(t *testing.T) {
	twoServers(t, func(t *testing.T, one, two *routertest.Server, _ func()) {
		mod, ann := moderatorTab(one), tab(two, "ann")
		id := enter(t, ann, "lobby", "Ann").You
		enter(t, mod, "lobby", "Mod")
		ann.Request("member.ban", Other{id}).ExpectError(errors.PermissionDenied)
		routertest.ExpectReply[struct{}](mod.Request("member.ban", Other{id}))
		ann.ExpectClose(errors.CloseTooManyRequests)
		refused := func() bool {
			c, res, err := two.TryDial(routertest.DialOptions{Token: "annannannannanna"})
			if err == nil {
				c.Close()
			}
			return res != nil && res.StatusCode == http.StatusTooManyRequests
		}
		time.Sleep(banTime - 5*time.Second)
		if !refused() {
			t.Error("the ban has ended early")
		}
		time.Sleep(10 * time.Second)
		if refused() {
			t.Error("the ban lasts")
		}
	})
}

func TestModeratorsNeedTheKey(t *testing.T) {
	twoServers(t, func(t *testing.T, one, _ *routertest.Server, _ func()) {
		_, res, err := one.TryDial(routertest.DialOptions{Token: "the-moderators-tab.NOTTHEKEY"})
		if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("with another key: %v, %v", res, err)
		}
	})
	b := memory.New()
	s := routertest.New(t, NewChat(b, b.Limits, "").Router)
	if _, _, err := s.TryDial(routertest.DialOptions{Token: "the-moderators-tab."}); err == nil {
		t.Error("without a key there are moderators")
	}
	one, err := newModeratorKey(t.Context(), b)
	other, err2 := newModeratorKey(t.Context(), b)
	if err != nil || err2 != nil || len(one) < 20 || one == other {
		t.Errorf("keys of chats in memory: %q, %q, %v, %v", one, other, err, err2)
	}
}
