package router_test

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

// refusing refuses by the token, which is a code, or expired.
func refusing(req *http.Request) (ingress.Identity, error) {
	switch code := ingress.Token(req); code {
	case "expired":
		return ingress.Identity{User: "ann", ExpiresAt: time.Now().Add(-time.Second)}, nil
	case "uncoded":
		return ingress.Identity{}, errors.New("the database is away")
	case "wait":
		return ingress.Identity{}, errors.Unavailable.New("later").WithRetryAfter(1500 * time.Millisecond)
	case "own":
		return ingress.Identity{}, &ingress.Refusal{Err: errors.PermissionDenied.New("not from here"), Header: http.Header{"X-Reason": {"region"}}}
	case "":
		return ingress.Identity{User: "ann"}, nil
	default:
		return ingress.Identity{}, errors.Code(code).New("refused")
	}
}

// A page gets the reason of a refusal as a close code. Other clients, pages of other origins and
// refusals without a code for them get HTTP answers.
func TestPagesSeeWhyTheyAreRefused(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{Authenticate: refusing, Handshake: router.Handshake{Hosts: []string{"127.0.0.1"}}, OnError: func(router.Fault) {}}, nil)
	page := "Origin: http://" + s.addr
	for _, c := range []struct {
		token, origin string
		status        int
		end           string
	}{
		{"UNAUTHENTICATED", page, 101, `4401 {"retryAfterMs":null,"message":"refused"}`},
		{"expired", page, 101, `4401 {"retryAfterMs":null,"message":"the identity has expired"}`},
		{"PERMISSION_DENIED", page, 101, `4403 {"retryAfterMs":null,"message":"refused"}`},
		{"own", page, 101, `4403 {"retryAfterMs":null,"message":"not from here"}`},
		{"RESOURCE_EXHAUSTED", page, 101, `4429 {"message":"refused"}`},
		{"wait", page, 101, `1013 {"retryAfterMs":1500,"message":"later"}`},
		{"INVALID_ARGUMENT", page, 400, ""},
		{"NOT_FOUND", page, 404, ""},
		{"uncoded", page, 500, ""},
		{"UNAUTHENTICATED", "X-Page: none", 401, ""},
		{"PERMISSION_DENIED", "X-Page: none", 403, ""},
		{"UNAUTHENTICATED", "Origin: http://evil.test", 403, ""},
		{"UNAUTHENTICATED", page + "\r\nHost: evil.test", 400, ""}, // two hosts
	} {
		p := s.connect()
		p.write([]byte(s.handshake(c.origin, "Sec-WebSocket-Protocol: bearer."+c.token+", chat")))
		res := p.response()
		if res.StatusCode != c.status {
			t.Errorf("%s, %s: the status is %d, want %d", c.token, c.origin, res.StatusCode, c.status)
			continue
		}
		if c.status == 101 {
			if got := res.Header.Get("Sec-WebSocket-Protocol"); got != "chat" {
				t.Errorf("%s: the subprotocol is %q", c.token, got)
			}
			if got, want := res.Header.Get("X-Reason"), map[bool]string{true: "region"}[c.token == "own"]; got != want {
				t.Errorf("%s: the field of the refusal is %q", c.token, got)
			}
			f, err := p.read()
			if err != nil || f.b0 != 0x88 {
				t.Fatalf("%s: got %v, %v", c.token, f, err)
			}
			if got := f.String()[len("close "):] + " " + string(f.payload[2:]); got != c.end || binary.BigEndian.Uint16(f.payload) == 0 {
				t.Errorf("%s: closed with %q, want %q", c.token, got, c.end)
			}
			p.expect("end")
		}
		p.hangUp()
	}
	if n := s.r.Stats().Accepted; n != 0 {
		t.Errorf("%d connections are accepted", n)
	}
	s.settled()
}

// Refusing by accepting holds no lease, ends in time also for a client that does nothing, and is
// itself limited.
func TestAcceptedRefusalsHoldLittle(t *testing.T) {
	t.Parallel()
	takesTime(t)
	store := memory.NewStore()
	fast := limit.TokenBucket{Capacity: 10_000, Refill: 10_000, Per: time.Second}
	gate := gate.New(store, gate.Options{PerIP: fast, PerIdentity: fast, MaxPerIP: -1})
	s := serveSocket(t, router.Options{Authenticate: refusing, Gate: gate}, nil)
	start := time.Now()
	var silent []*peer
	for range 5 {
		p := s.connect()
		p.write([]byte(s.handshake("Origin: http://"+s.addr, "Authorization: Bearer UNAUTHENTICATED")))
		if res := p.response(); res.StatusCode != 101 {
			t.Fatalf("the status is %d", res.StatusCode)
		}
		p.expect("close 4401", "end") // the server's half
		silent = append(silent, p)
	}
	if n := store.Stats().Held; n != 0 {
		t.Errorf("%d leases are held", n)
	}
	statuses := make(map[int]int)
	for range 400 {
		p := s.connect()
		p.write([]byte(s.handshake("Origin: http://"+s.addr, "Authorization: Bearer UNAUTHENTICATED")))
		statuses[p.response().StatusCode]++
		p.hangUp()
	}
	if most := 100 + int(100*time.Since(start)/time.Second) + 1; statuses[101] > most || statuses[101]+statuses[401] != 400 {
		t.Errorf("the answers are %v, want no more than %d by accepting", statuses, most)
	}
	// A socket that the server has closed is reset when something is sent to it.
	eventually(t, "the server to close what the clients leave open", func() bool {
		return !slices.ContainsFunc(silent, func(p *peer) bool { return p.tryWrite([]byte{0}) == nil })
	})
	s.settled()
}

// With a gate and Authenticate, one option is enough.
func TestRefusalsOfTheGateAreAccepted(t *testing.T) {
	t.Parallel()
	gate := gate.New(memory.NewStore(), gate.Options{
		PerIP: limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}, OnRefused: func(gate.Refusal) {},
	})
	s := serveSocket(t, router.Options{Gate: gate}, nil)
	page := "Origin: http://" + s.addr
	s.dial(page).bye()
	p := s.dial(page)
	if f, err := p.read(); err != nil || f.String() != "close 4429" || !strings.HasPrefix(string(f.payload[2:]), `{"retryAfterMs":`) {
		t.Errorf("got %q %v", f.payload, err)
	}
	p.hangUp()
	s.settled()
}
