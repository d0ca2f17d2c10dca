package router

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/race"
)

func ticketsOf(t *testing.T, secrets ...string) *tickets {
	o := ResumeOptions{}
	for _, s := range secrets {
		o.Keys = append(o.Keys, []byte(strings.Repeat(s, minKey)))
	}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ts := new(tickets)
	ts.init(o, nil)
	return ts
}

func connOf(tenant, user string) *Conn {
	c := new(Conn)
	c.identity.Store(&ingress.Identity{Tenant: tenant, User: user})
	return c
}

// Tickets that are issued and checked at once are valid for their own identity and no other, with each of the keys.
func TestTicketsAtOnce(t *testing.T) {
	t.Parallel()
	old, both := ticketsOf(t, "a"), ticketsOf(t, "b", "a")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c, other := connOf("t", fmt.Sprint(i)), connOf(fmt.Sprint("t", i), "")
			for j := range 200 {
				topic := fmt.Sprint("room:", j)
				for _, ts := range []*tickets{old, both} {
					text := ts.issue(c, ticket{topic: topic, joined: []byte("x")})
					if got := both.check(text, c.Identity()); got.topic != topic || string(got.joined) != "x" {
						t.Errorf("the ticket for %q is for %q, joined with %q", topic, got.topic, got.joined)
					}
					if got := both.check(text, other.Identity()); got.topic != "" {
						t.Errorf("another identity may use the ticket for %q", topic)
					}
				}
			}
		})
	}
	all.Wait()
}

// The MAC of a ticket is the one that processes of other versions make, too.
func TestTicketMAC(t *testing.T) {
	t.Parallel()
	text, err := base64.RawURLEncoding.DecodeString(ticketsOf(t, "k").issue(connOf("acme", "ada"), ticket{topic: "room"}))
	if err != nil {
		t.Fatal(err)
	}
	body := string(text[:len(text)-16])
	h := hmac.New(sha256.New, []byte(strings.Repeat("k", 32)))
	fmt.Fprintf(h, "\x04acme\x03ada%c%s", len(body), body)
	if got, want := text[len(body):], h.Sum(nil)[:16]; string(got) != string(want) {
		t.Errorf("MAC %x, want %x", got, want)
	}
}

// To check a ticket and to issue the next one allocates texts and what they are made from, and no hash: thousands of
// clients resume at once, and the garbage collector delays the messages of all others.
func TestTicketsAllocateLittle(t *testing.T) {
	ts, c := ticketsOf(t, "k"), connOf("", "")
	text := ts.issue(c, ticket{topic: "room"})
	n := testing.AllocsPerRun(1000, func() {
		if ts.check(text, c.Identity()).topic != "room" {
			t.Error("a valid ticket is refused")
		}
		ts.issue(c, ticket{topic: "room"})
	})
	if n > 6 && !race.Enabled {
		t.Errorf("%v allocations, want at most 6", n)
	}
}
