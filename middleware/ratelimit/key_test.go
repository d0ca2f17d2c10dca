package ratelimit_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit"
)

func TestKeys(t *testing.T) {
	user := func(tenant, user, typ string) ingress.Context {
		return ingress.Context{Type: typ, IP: netip.MustParseAddr("192.0.2.1"), Identity: ingress.Identity{Tenant: tenant, User: user}}
	}
	from := func(ip, typ string) ingress.Context {
		c := ingress.Context{Type: typ}
		if ip != "" {
			c.IP = netip.MustParseAddr(ip)
		}
		return c
	}
	l := newLimiter(1)
	prefix := l.Key(nil).String()
	for _, c := range []struct {
		key  ratelimit.KeyFunc
		ctx  ingress.Context
		want string
	}{
		{ratelimit.PerUser, user("acme", "ann", "chat.send"), ":user:acme:ann"},
		{ratelimit.PerUser, user("", "ann", "chat.send"), ":user:%none:ann"},
		{ratelimit.PerUser, user("acme", "", "chat.send"), ":user:acme:%none"},
		{ratelimit.PerUser, user("a:b", "c", "chat.send"), ":user:a%3Ab:c"},
		{ratelimit.PerUserPerType, user("acme", "ann", "chat.send"), ":user:acme:ann:chat.send"},
		{ratelimit.PerUserPerType, user("acme", "ann", ""), ":user:acme:ann:%none"},
		{ratelimit.PerUserOrIPPerType, user("acme", "ann", "chat.send"), ":user:acme:ann:chat.send"},
		{ratelimit.PerUserOrIPPerType, from("192.0.2.1", "chat.send"), ":ip:192.0.2.1:chat.send"},
		{ratelimit.PerUserOrIPPerType, from("::ffff:192.0.2.1", "chat.send"), ":ip:192.0.2.1:chat.send"},
		{ratelimit.PerUserOrIPPerType, from("2001:db8:1:2:3:4:5:6", "chat.send"), ":ip:2001%3Adb8%3A1%3A2%3A%3A:chat.send"},
		{ratelimit.PerUserOrIPPerType, from("", "chat.send"), ":ip:%none:chat.send"},
		{ratelimit.PerUserOrIP, user("acme", "ann", "chat.send"), ":user:acme:ann"},
		{ratelimit.PerUserOrIP, from("192.0.2.1", "chat.send"), ":ip:192.0.2.1"},
		{ratelimit.PerUserOrIP, user("acme", "", "chat.send"), ":tenant:acme:ip:192.0.2.1"},
		{ratelimit.PerUserOrIP, user("acme:ip", "", "chat.send"), ":tenant:acme%3Aip:ip:192.0.2.1"},
		{ratelimit.PerUserOrIPPerType, user("acme", "", "chat.send"), ":tenant:acme:ip:192.0.2.1:chat.send"},
		{ratelimit.PerIP, user("acme", "", "chat.send"), ":ip:192.0.2.1"},
		{ratelimit.PerTenant, user("acme", "ann", "chat.send"), ":tenant:acme"},
		{ratelimit.PerTenant, user("", "ann", "chat.send"), ":tenant:%none"},
		{ratelimit.Global, user("acme", "ann", "chat.send"), ""},
	} {
		if got := c.key(l.Key(nil), &c.ctx).String(); got != prefix+c.want {
			t.Errorf("got %s, want %s", got, prefix+c.want)
		}
	}
}

// A fresh unregistered type per frame is not a fresh limit.
func TestUnregisteredTypesShareOneLimit(t *testing.T) {
	h := ratelimit.New(newLimiter(2), ratelimit.PerUserOrIPPerType)(ingress.Pass)
	admitted := 0
	for i := range 50 {
		c := ann("")
		c.State.SentType = fmt.Append(nil, "made.up.", i)
		if passes(h, c) {
			admitted++
		}
	}
	if admitted != 2 {
		t.Errorf("%d frames of made-up types passed a limit of 2", admitted)
	}
	if !passes(h, ann("chat.send")) {
		t.Error("made-up types used up a registered one's limit")
	}
}

// Nor is it in a stack, or in a limit of the connection.
func TestUnregisteredTypesShareOneLimitOfEachKind(t *testing.T) {
	store := memory.NewStore()
	for name, h := range map[string]ingress.Handler{
		"stack":      stacked(store, hourly(2), ratelimit.PerUserOrIPPerType, ratelimit.Options{})(ingress.Pass),
		"connection": ratelimit.NewPerConnection(hourly(2))(ingress.Pass),
	} {
		before, admitted := store.Stats().Keys, 0
		c := ann("")
		for i := range 50 {
			c.State.SentType = fmt.Append(nil, "made.up.", i)
			if passes(h, c) {
				admitted++
			}
		}
		if keys := store.Stats().Keys - before; admitted != 2 || keys > 3 {
			t.Errorf("%s: %d frames of made-up types passed a limit of 2, with %d keys", name, admitted, keys)
		}
	}
}

// A client that reconnects has the same limit.
func TestReconnectingIsNoFreshStart(t *testing.T) {
	for name, identity := range map[string]ingress.Identity{"user": {User: "ann"}, "address": {}} {
		h := ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType)(ingress.Pass)
		passed := 0
		for i := range 5 {
			c := ann("chat.send")
			c.Identity, c.ConnID = identity, fmt.Sprint("conn", i)
			if passes(h, c) {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%s: %d passed over 5 connections, want 1", name, passed)
		}
	}
}

// One host has 2⁶⁴ IPv6 addresses and one limit; IPv4 clients that
// arrive as IPv4-mapped IPv6 are not one host; no address is no free pass.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
		{"", "", true},
		{"", "192.0.2.1", false},
	} {
		h := ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType)(ingress.Pass)
		frame := func(ip string) *ingress.Context {
			x := &ingress.Context{Type: "chat.send"}
			x.IP, _ = netip.ParseAddr(ip)
			return x
		}
		if !passes(h, frame(c.a)) {
			t.Errorf("%q: the first frame is refused", c.a)
		}
		if got := !passes(h, frame(c.b)); got != c.same {
			t.Errorf("%q and %q share a limit: %v", c.a, c.b, got)
		}
	}
}
