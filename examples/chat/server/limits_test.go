package server

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/routertest"
)

func TestFloodOfOneTabDoesNotAffectOthers(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "lobby", "Bob")

		var requests []*routertest.Request
		for range 500 {
			requests = append(requests, ann.Request("chat.send", message("flood")))
		}
		for _, q := range requests[:perTab.Capacity] {
			routertest.ExpectReply[Sent](q)
		}
		for _, q := range requests[perTab.Capacity:] {
			e := q.ExpectError(errors.ResourceExhausted)
			if !e.Retryable || e.RetryAfterMs == nil || *e.RetryAfterMs != perTab.Per.Milliseconds() {
				t.Fatalf("refused with %+v, want retryAfterMs %d", e, perTab.Per.Milliseconds())
			}
		}
		say(t, bob, "I am here")
		synctest.Wait()
		delivered := 0
		for _, f := range bob.Frames() {
			if f.Type == "chat.message" {
				delivered++
			}
		}
		if want := int(perTab.Capacity) + 1; delivered != want {
			t.Errorf("Bob was shown %d messages, want %d", delivered, want)
		}

		time.Sleep(perTab.Per)
		say(t, ann, "the wait was right")
	})
}

// shown is the limit of a tab as its page gets it.
type shown struct {
	Limits []struct {
		Name      string         `json:"name"`
		Types     map[string]int `json:"types"`
		Limit     float64        `json:"limit"`
		Remaining float64        `json:"remaining"`
		Refill    float64        `json:"refill"`
		PerMs     float64        `json:"perMs"`
	} `json:"limits"`
	Seen map[string]int `json:"seen"`
}

// A page gets what is left when it asks, and after its messages; a new connection changes nothing.
func TestPageGetsWhatIsLeft(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		left := func(got shown, want float64) {
			t.Helper()
			if len(got.Limits) != 1 {
				t.Fatalf("%d limits: %+v", len(got.Limits), got)
			}
			l := got.Limits[0]
			if l.Name != "messages" || l.Types["chat.send"] != 1 || l.Limit != 10 || l.Refill != 1 || l.PerMs != 3000 {
				t.Errorf("the limit is sent as %+v", l)
			}
			if math.Abs(l.Remaining-want) > 2e-6 {
				t.Errorf("%g messages left, want %g", l.Remaining, want)
			}
		}
		ask := func(c *routertest.Client) shown {
			t.Helper()
			return routertest.ExpectReply[shown](c.Request("$ws:limits", map[string]any{"types": []string{"chat.send"}}))
		}
		ann := tab(s, "ann")
		enter(t, ann, "lobby", "Ann")
		left(ask(ann), 10)
		for range 10 {
			say(t, ann, "hi")
		}
		empty := time.Now()
		back := func() float64 { return float64(time.Since(empty)) / float64(perTab.Per) }
		after := routertest.ExpectEvent[shown](ann, "$ws:limits")
		if left(after, back()); after.Seen["chat.send"] != 10 {
			t.Errorf("%d messages are counted, want 10", after.Seen["chat.send"])
		}
		ann.Request("chat.send", message("one too many")).ExpectError(errors.ResourceExhausted)
		ann.Vanish()
		time.Sleep(perTab.Per / 2)
		ann = tab(s, "ann")
		left(ask(ann), back())
		enter(t, ann, "lobby", "Ann")
		ann.Request("chat.send", message("still too early")).ExpectError(errors.ResourceExhausted)
		time.Sleep(perTab.Per / 2)
		say(t, ann, "now")
	})
}

// A client with a new token for every message is limited by its address.
func TestNewTokensDoNotEvadeTheLimit(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		passed := int64(0)
		for i := range perAddress.Capacity {
			c := tab(s, fmt.Sprintf("made-up-%08d", i))
			for range 3 {
				id := c.Request("room.join", Join{Room: "lobby", Name: "Mallory"}).ID
				if f := c.ExpectAny("room.joined"); f.Meta.CorrelationID == id {
					passed++
				}
				if passed == perAddress.Capacity {
					break
				}
			}
			if passed == perAddress.Capacity {
				e := c.Request("room.join", Join{Room: "lobby", Name: "Mallory"}).ExpectError(errors.ResourceExhausted)
				if e.RetryAfterMs == nil || *e.RetryAfterMs > 1000 {
					t.Errorf("refused with %+v", e)
				}
				return
			}
			c.Close()
		}
		t.Errorf("the limit of %d for the address was never met; %d passed", perAddress.Capacity, passed)
	})
}

func TestTokenIsNeeded(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		for _, token := range []string{"", "short", fmt.Sprintf("%065d", 1)} {
			_, res, err := s.TryDial(routertest.DialOptions{Token: token})
			if err == nil {
				t.Errorf("token %q is accepted", token)
			} else if res == nil || res.StatusCode != 401 {
				t.Errorf("token %q: %v, want 401", token, res)
			}
		}
	})
}

// A refused page gets the reason and the time to wait, after the handshake: a browser does not
// show the answer to a failed handshake to the page.
func TestRefusedPageGetsTheTimeToWait(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		page := routertest.DialOptions{Token: "a-tab-that-opens-a-lot", Header: http.Header{"Origin": {"http://routertest"}}}
		for range tabConns {
			s.Dial(page)
		}
		closed := s.Dial(page).ExpectClose(errors.CloseTooManyRequests)
		if ok, _ := regexp.MatchString(`^\{"retryAfterMs":\d{4,5},"message":"too many connections"\}$`, closed); !ok {
			t.Errorf("the reason is %q", closed)
		}
		_, res, err := s.TryDial(routertest.DialOptions{Token: page.Token})
		if err == nil || res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
			t.Errorf("a client that is no page is answered %v", res)
		}
		tab(s, "another") // other tabs are not affected
	})
}
