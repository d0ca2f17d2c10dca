package main

import (
	"slices"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/exampletest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// presence is the payload of $ws:presence, by user.
type presence struct {
	Members, Joined, Left []struct{ User string }
}

// Two servers are one dashboard, also after one of them was killed.
func TestTwoServers(t *testing.T) {
	if testing.Short() {
		t.Skip("members of a killed server leave after 15 s")
	}
	redis := redistest.Start(t)
	one, two := exampletest.Start(t, "-redis", redis.URL()), exampletest.Start(t, "-redis", redis.URL())
	ann1, ann2, bob := one.Dial("ann"), two.Dial("ann"), one.Dial("bob")
	market, desk := one.Dial("market:feed"), two.Dial("desk:dora")

	for _, c := range []*exampletest.Client{ann1, ann2, bob} {
		exampletest.Payload[struct{}](c, c.Request("prices.watch", nil, ""), "prices.watch.reply")
	}
	market.Send("price.set", Price{"ACME", 1250}, nil)
	for _, c := range []*exampletest.Client{ann1, ann2} {
		if p := exampletest.Payload[Price](c, c.Expect("price"), "price"); p != (Price{"ACME", 1250}) {
			t.Errorf("the price is %+v", p)
		}
	}

	// The desk sees each user once.
	exampletest.Payload[struct{}](desk, desk.Request("desk.watch", nil, ""), "desk.watch.reply")
	known := map[string]bool{}
	watch := func() (left []string) {
		p := exampletest.Payload[presence](desk, desk.Expect("$ws:presence"), "$ws:presence")
		for _, m := range slices.Concat(p.Members, p.Joined) {
			if known[m.User] {
				t.Errorf("%s joined twice", m.User)
			}
			known[m.User] = true
		}
		for _, m := range p.Left {
			left = append(left, m.User)
		}
		return left
	}
	for !known["ann"] || !known["bob"] {
		watch()
	}

	// Only the desk may close sessions, and only the market sets prices.
	bob.Send("price.set", Price{"ACME", 1}, map[string]any{"correlationId": "p"})
	for _, f := range []exampletest.Frame{bob.Expect("RPC_ERROR"), bob.Request("desk.close", Trader{User: "ann"}, "")} {
		if e := exampletest.Payload[errors.Error](bob, f, "RPC_ERROR"); e.Code != errors.PermissionDenied {
			t.Errorf("got %s", e.Code)
		}
	}

	// An order reaches all sessions of the trader. Sent again it has the same answer, although its
	// server was killed.
	order := Order{"ACME", 100}
	first := exampletest.Payload[Placed](ann1, ann1.Request("order.place", order, "order-1"), "order.place.reply")
	for _, c := range []*exampletest.Client{ann1, ann2} {
		if p := exampletest.Payload[Placed](c, c.Expect("order.placed"), "order.placed"); p != first {
			t.Errorf("a session has %+v, the answer was %+v", p, first)
		}
	}
	one.Kill()
	if again := exampletest.Payload[Placed](ann2, ann2.Request("order.place", order, "order-1"), "order.place.reply"); again != first {
		t.Errorf("sent again: %+v, first: %+v", again, first)
	}
	exampletest.Payload[Placed](ann2, ann2.Request("order.place", order, "order-2"), "order.place.reply")
	ann2.Expect("order.placed")
	if n := ann2.Pending("order.placed"); n != 0 {
		t.Errorf("%d orders more were placed", n)
	}

	// Users whose server was killed leave; those with a session elsewhere stay.
	for left := []string(nil); !slices.Contains(left, "bob"); {
		if left = watch(); slices.Contains(left, "ann") {
			t.Error("ann left, and has a session")
		}
	}

	poll.Until(t, "the killed server not to be waited for", func() bool {
		return desk.Request("desk.close", Trader{User: "unknown"}, "").Type == "desk.close.reply"
	})
	closed := exampletest.Payload[Trader](desk, desk.Request("desk.close", Trader{User: "ann"}, ""), "desk.close.reply")
	if code := ann2.ExpectClose(); closed.Sessions != 1 || code != errors.ClosePolicy {
		t.Errorf("%d sessions are closed, with %d", closed.Sessions, code)
	}
}
