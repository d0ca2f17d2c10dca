package limit_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

func newLimiter(t testing.TB, o ...limit.Options) *limit.Limiter {
	return limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour}, o...)
}

// No text in one part reaches into another, and what is missing
// equals no real value.
func TestKeysNeverCollide(t *testing.T) {
	l := newLimiter(t, limit.Options{Name: "n"})
	parts := []string{
		"", "a", "b", ":", "::", "a:b", "b:a", "%", "%3A", "%none", "none", "anon", "%h", "*", "a*", "?", "[a]", "{a}", "\\", "\"",
		"ä", "a\u0308", "\xff", "\xc3", "\x00", " ", "\n", "0", "00", "127.0.0.1", "::1",
		strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat(":", 21), strings.Repeat(":", 22),
		"%h" + strings.Repeat("0", 32),
	}
	seen := map[string][2]string{}
	add := func(k limit.Key, parts [2]string) {
		if other, ok := seen[k.String()]; ok {
			t.Errorf("%q and %q make the same key %s", parts, other, k)
		}
		seen[k.String()] = parts
		if strings.Trim(k.String(), keyBytes) != "" {
			t.Errorf("%q: the key %q has bytes beyond printable ASCII without wildcards", parts, k)
		}
		if len(k.String()) > len("wskit:n")+2*65 {
			t.Errorf("%q: the key has %d bytes", parts, len(k.String()))
		}
	}
	for _, a := range parts {
		add(l.Key(nil).Part(a), [2]string{a, "(one part)"})
		for _, b := range parts {
			add(l.Key(nil).Part(a).Part(b), [2]string{a, b})
		}
	}
}

const keyBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:%.,;-_+~=!#$&/()<>@'^`|"

func TestKeyText(t *testing.T) {
	l := newLimiter(t, limit.Options{Name: "chat", Prefix: "app"})
	for _, c := range []struct {
		key  limit.Key
		want string
	}{
		{l.Key(nil), "app:chat"},
		{l.Key(nil).Part("acme").Part("ann").Part("chat.send"), "app:chat:acme:ann:chat.send"},
		{l.Key(nil).Part("a:b").Part(""), "app:chat:a%3Ab:%none"},
		{l.Key(nil).Int(-42), "app:chat:-42"},
		{l.Key(nil).Addr(netip.MustParseAddr("192.0.2.1")), "app:chat:192.0.2.1"},
		{l.Key(nil).Addr(netip.MustParseAddr("2001:db8::")), "app:chat:2001%3Adb8%3A%3A"},
		{l.Key(nil).Addr(netip.Addr{}), "app:chat:%none"},
		{l.Key(nil).Secret("hunter2"), "app:chat:%sf52fbd32b2b3b86ff88ef6c490628285"},
		{l.Key(nil).Secret(""), "app:chat:%none"},
		{l.Key(nil).Part(strings.Repeat("x", 65)), "app:chat:%h9537c5fdf120482f7d58d25e9ed583f5"},
	} {
		if got := c.key.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// A secret is readable neither in the key nor in an error.
func TestSecretIsNotReadable(t *testing.T) {
	k := newLimiter(t).Key(nil).Secret("hunter2")
	if strings.Contains(k.String(), "hunter2") {
		t.Error(k)
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	l := newLimiter(t)
	buf := make([]byte, 0, 512)
	ip := netip.MustParseAddr("2001:db8:1:2::")
	long := strings.Repeat("user", 40)
	if n := testing.AllocsPerRun(1000, func() {
		l.Key(buf).Part("acme").Part("ann:é").Part("").Part(long).Secret("session").Addr(ip).Int(7)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzKey(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("", "none", "%none", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		l := newLimiter(t)
		one, two := l.Key(nil).Part(a).Part(b).String(), l.Key(nil).Part(c).Part(d).String()
		if (one == two) != (a == c && b == d) {
			t.Errorf("(%q, %q) and (%q, %q): %s and %s", a, b, c, d, one, two)
		}
	})
}
