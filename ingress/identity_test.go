package ingress_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/ingress"
)

func TestAuthenticated(t *testing.T) {
	for _, c := range []struct {
		id   ingress.Identity
		want bool
	}{
		{ingress.Identity{}, false},
		{ingress.Identity{Tenant: "acme", Tier: "pro"}, false},
		{ingress.Identity{User: "ann"}, true},
	} {
		if got := c.id.Authenticated(); got != c.want {
			t.Errorf("%+v: Authenticated() = %v", c.id, got)
		}
	}
}

func TestKeysOfOneTypeDoNotShareValues(t *testing.T) {
	a, b, c := ingress.NewKey[string](), ingress.NewKey[string](), ingress.NewKey[int]()
	var id ingress.Identity
	a.Set(&id, "of a")
	if v, ok := b.Get(&id); ok || v != "" {
		t.Errorf("another key of the type gets %q", v)
	}
	if v, ok := c.Get(&id); ok || v != 0 {
		t.Errorf("a key of another type gets %d", v)
	}
	b.Set(&id, "of b")
	c.Set(&id, 3)
	if v, ok := a.Get(&id); !ok || v != "of a" {
		t.Errorf("another key overwrote the value with %q", v)
	}
}

func TestSetReplaces(t *testing.T) {
	k := ingress.NewKey[int]()
	var id ingress.Identity
	if _, ok := k.Get(&id); ok {
		t.Error("a value that was never set")
	}
	for _, want := range []int{1, 2, 0} {
		k.Set(&id, want)
		if v, ok := k.Get(&id); !ok || v != want {
			t.Errorf("Get = %d, %v after Set(%d)", v, ok, want)
		}
	}
}

type pair[A, B any] struct {
	a A
	b B
}

func TestKeyTypes(t *testing.T) {
	var id ingress.Identity
	roundTrip(t, &id, pair[string, []int]{"a", nil})
	roundTrip(t, &id, &pair[int, int]{1, 2})
	roundTrip(t, &id, (*int)(nil))
	roundTrip(t, &id, map[string]int(nil))
	roundTrip(t, &id, func() int { return 1 })
	roundTrip(t, &id, struct{}{})
	roundTrip[any](t, &id, 1)
	roundTrip[fmt.Stringer](t, &id, netip.Addr{})
	// A nil interface is a value, too.
	roundTrip[error](t, &id, nil)
	roundTrip[any](t, &id, nil)
}

func roundTrip[T any](t *testing.T, id *ingress.Identity, v T) {
	t.Helper()
	k := ingress.NewKey[T]()
	k.Set(id, v)
	got, ok := k.Get(id)
	if !ok || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", v) {
		t.Errorf("Get = %#v, %v after Set(%#v)", got, ok, v)
	}
}

func TestCopiesShareAfterOwn(t *testing.T) {
	k := ingress.NewKey[string]()
	var id ingress.Identity
	id.Own()
	copied := id
	k.Set(&copied, "v")
	if v, _ := k.Get(&id); v != "v" {
		t.Errorf("the original gets %q of what its copy set", v)
	}
	frame := ingress.Context{Identity: id}
	if v, _ := k.Get(&frame.Identity); v != "v" {
		t.Errorf("a Context gets %q", v)
	}

	// The connection has the values that were set during authentication.
	var early ingress.Identity
	k.Set(&early, "early")
	copied = early
	copied.Own()
	if v, _ := k.Get(&copied); v != "early" {
		t.Errorf("Own lost a value: %q", v)
	}

	// Connections do not share values.
	var other ingress.Identity
	other.Own()
	if v, ok := k.Get(&other); ok {
		t.Errorf("another connection gets %q", v)
	}

	// Connections that got the same identity with a value do not share it either.
	one, two := early, early
	one.Own()
	two.Own()
	k.Set(&one, "one's")
	for name, c := range map[string]*ingress.Identity{"the other": &two, "the next": &early} {
		if v, _ := k.Get(c); v != "early" {
			t.Errorf("%s gets %q", name, v)
		}
	}
}

func TestIdentitiesOfConnectionsDoNotShareRoles(t *testing.T) {
	cached := ingress.Identity{User: "ann", Roles: []string{"reader"}, ExpiresAt: time.Now().Add(time.Hour)}
	for name, own := range map[string]func(*ingress.Identity){
		"Own":   (*ingress.Identity).Own,
		"OwnAs": func(id *ingress.Identity) { id.OwnAs(new(ingress.Identity)) },
	} {
		copied := cached
		own(&copied)
		copied.Roles[0] = "admin"
		if !cached.HasRole("reader") || cached.HasRole("admin") {
			t.Errorf("%s: the roles of the original are %q", name, cached.Roles)
		}
		if copied.ExpiresAt.String() != cached.ExpiresAt.Round(0).String() {
			t.Errorf("%s: expires at %v, want the wall clock of %v", name, copied.ExpiresAt, cached.ExpiresAt)
		}
	}
}

// An identity that replaces another one has its values, and those of its own replace them.
func TestOwnAsKeepsValues(t *testing.T) {
	seat, theme := ingress.NewKey[int](), ingress.NewKey[string]()
	var old ingress.Identity
	old.Own()
	seat.Set(&old, 1)
	theme.Set(&old, "light")

	cached := ingress.Identity{User: "ann"}
	theme.Set(&cached, "dark")
	renewed := cached
	renewed.OwnAs(&old)
	for name, id := range map[string]*ingress.Identity{"new": &renewed, "old": &old} {
		if n, _ := seat.Get(id); n != 1 {
			t.Errorf("the %s identity has the seat %d", name, n)
		}
		if s, _ := theme.Get(id); s != "dark" {
			t.Errorf("the %s identity has the theme %q", name, s)
		}
	}
	// What a handler stores that began before is found after.
	seat.Set(&old, 2)
	if n, _ := seat.Get(&renewed); n != 2 {
		t.Errorf("the new identity has the seat %d", n)
	}
	if _, ok := seat.Get(&cached); ok {
		t.Error("the identity that was passed has a value of the connection")
	}
	again := renewed
	again.OwnAs(&renewed)
	if n, _ := seat.Get(&again); n != 2 {
		t.Errorf("a copy has the seat %d", n)
	}
}

func TestExpired(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		expires, now time.Time
		want         bool
	}{
		{time.Time{}, at, false},
		{at, at.Add(-time.Nanosecond), false},
		{at, at, true},
		{at, at.Add(time.Hour), true},
	} {
		if got := (&ingress.Identity{ExpiresAt: c.expires}).Expired(c.now); got != c.want {
			t.Errorf("expires at %v, at %v: %v", c.expires, c.now, got)
		}
	}
}

// Run with -race.
func TestKeysCanBeUsedConcurrently(t *testing.T) {
	keys := []*ingress.Key[int]{ingress.NewKey[int](), ingress.NewKey[int](), ingress.NewKey[int]()}
	shared := ingress.NewKey[[2]int]()
	var id ingress.Identity
	id.Own()
	var wg sync.WaitGroup
	for i, k := range keys {
		copied := id
		wg.Go(func() {
			for n := range 1000 {
				k.Set(&copied, n)
				if v, ok := k.Get(&copied); !ok || v != n {
					t.Errorf("key %d: Get = %d, %v after Set(%d)", i, v, ok, n)
					return
				}
				shared.Set(&copied, [2]int{n, n})
				if v, ok := shared.Get(&copied); !ok || v[0] != v[1] {
					t.Errorf("half a value: %v", v)
					return
				}
			}
		})
	}
	wg.Wait()
}
