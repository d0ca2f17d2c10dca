package hub

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
)

func all(string) bool { return true }

// What a client is sent of a log ends when its right is revoked, in the midst of a page.
func TestRevokeWhileTheLogIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(withHistory(memory.NewBroker(), 10_000))
		at, err := h.HistoryOf("a").Log.Read(t.Context(), "a", h.HistoryOf("a").Kept, pubsub.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 * atOnce {
			mustPublish(t, h, event("a", i), PublishOptions{History: h.HistoryOf("a")})
		}
		c := newClient(t, h)
		c.mayReplay = func() {
			c.mayReplay = nil
			if !c.Revoke(all) {
				t.Error("there is no membership")
			}
		}
		if err := c.SubscribeFrom(t.Context(), "a", at.Head, Terms{}); err != ErrClosed {
			t.Errorf("SubscribeFrom: %v", err)
		}
		if got := strings.Join(c.types(), " "); got != "$ws:subscribed $ws:unsubscribed" {
			t.Errorf("the client gets %s", got)
		}
	})
}

// Whether a right was revoked is asked when a revocation finds the membership, and before it begins.
func TestRevokedBeforeTheMembershipBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.NewBroker()
		h := newHub(withHistory(l, 10_000))
		for _, how := range []string{"found", "decided"} {
			c := newClient(t, h)
			terms := Terms{Revoked: func() bool {
				mustPublish(t, h, event("a", 1), PublishOptions{History: h.HistoryOf("a")})
				if how == "found" {
					return !c.Revoke(all)
				}
				return true
			}}
			want, sent := ErrRevoked, ""
			if how == "found" {
				want, sent = ErrClosed, "$ws:unsubscribed $ws:unsubscribed"
			}
			if err := c.Subscribe(t.Context(), "a", terms); err != want {
				t.Errorf("%s: Subscribe: %v", how, err)
			}
			if err := c.SubscribeFrom(context.Background(), "a", pubsub.Position{}, terms); err != want {
				t.Errorf("%s: SubscribeFrom: %v", how, err)
			}
			if got := strings.Join(c.types(), " "); got != sent {
				t.Errorf("%s: the client gets %s", how, got)
			}
			if c.Member("a") != nil {
				t.Errorf("%s: there is a membership", how)
			}
		}
	})
}

// A frame for the members, such as a change of presence, that was made before a member has left is not sent to it.
func TestAMemberThatHasLeftIsNotSentTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newHub(Config{}))
		mustSubscribe(t, c, "a")
		m := c.Member("a")
		change := frame.Share([]byte(`{"type":"change"}`))
		m.Send(&change)
		c.Revoke(all)
		m.Send(&change)
		if got := strings.Join(c.types(), " "); got != "change $ws:unsubscribed" {
			t.Errorf("the client gets %s", got)
		}
	})
}
