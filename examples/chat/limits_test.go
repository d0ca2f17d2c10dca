package main

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

// The page gets exactly the tokens that are left, and a new connection changes nothing.
func TestAllowance(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann := tab(s, "ann")
		left := func(c *routertest.Client) float64 {
			t.Helper()
			a := enter(t, c, "lobby", "Ann").Limit
			if a.Capacity != 10 || a.Refill != 1 || a.PerMs != 3000 {
				t.Errorf("the policy is sent as %+v", a)
			}
			return a.Left
		}
		near := func(got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%g messages left, want %g", got, want)
			}
		}
		near(left(ann), 10)
		near(left(ann), 10) // asking costs nothing
		for range 10 {
			say(t, ann, "hi")
		}
		near(left(ann), 0)
		ann.Request("chat.send", message("one too many")).ExpectError(errors.ResourceExhausted)
		ann.Vanish()
		time.Sleep(perTab.Per / 2)
		ann = tab(s, "ann")
		near(left(ann), 0.5)
		ann.Request("chat.send", message("still too early")).ExpectError(errors.ResourceExhausted)
		time.Sleep(perTab.Per / 2)
		say(t, ann, "now")
		near(left(ann), 0)
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
		if ok, _ := regexp.MatchString(`^\{"retryAfterMs":\d{4,5}\}$`, closed); !ok {
			t.Errorf("the reason is %q", closed)
		}
		_, res, err := s.TryDial(routertest.DialOptions{Token: page.Token})
		if err == nil || res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
			t.Errorf("a client that is no page is answered %v", res)
		}
		tab(s, "another") // other tabs are not affected
	})
}
