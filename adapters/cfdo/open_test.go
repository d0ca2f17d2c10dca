package cfdo_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// What does not fit into one request goes in several.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{Env: map[string]string{"SHARDS": "2"}})
	s := openStore(t, w.URL, cfdo.Options{Requests: 1, Remember: -1})
	p := limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour}
	long := strings.Repeat("\x00", 1000) // as long as JSON can make it
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			var asks []limit.Ask
			for j := range 64 {
				asks = append(asks, limit.Ask{Key: fmt.Append(nil, long, i, ":", j), Policy: p, Cost: int64(j%6 + 1)})
			}
			if err := s.TakeMany(ctx, asks); err != nil {
				t.Error(err)
				return
			}
			for j, a := range asks {
				d := a.Decision
				if cost := int64(j%6 + 1); d.Allowed != (cost <= 5) || d.Allowed && d.Remaining != 5-cost {
					t.Errorf("call %d, ask %d: %+v", i, j, d)
				}
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.Asks != 6400 || st.Requests >= 100 || st.Requests < 7 {
		t.Errorf("%+v", st)
	}
	if err := s.TakeMany(ctx, make([]limit.Ask, 65)); err == nil {
		t.Error("65 asks in one call")
	}
}

func TestLongKeysAreHashed(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	s := openStore(t, w.URL, cfdo.Options{Tenant: func(key string) string { return key }})
	name := own("long")
	p := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	for _, n := range []int{1023, 1024, 1025, 100_000, 2_000_000} {
		for _, end := range []string{"a", "b"} {
			key := name + strings.Repeat("x", n-len(name)) + end
			if !take(t, s, key, p, 1).Allowed || take(t, s, key, p, 1).Allowed {
				t.Errorf("a key of %d bytes is not its own", len(key))
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const url, secret = "https://limits.example", "sesame"
	for _, c := range []struct {
		url, secret string
		o           cfdo.Options
		want        string
	}{
		{"", secret, cfdo.Options{}, "https://"},
		{"limits.example", secret, cfdo.Options{}, "https://"},
		{"ftp://limits.example", secret, cfdo.Options{}, "https://"},
		{"https://limits.example/v1", secret, cfdo.Options{}, "leave out"},
		{"https://limits.example?x=1", secret, cfdo.Options{}, "leave out"},
		{"https://u:p@limits.example", secret, cfdo.Options{}, "leave out"},
		{"http://limits.example", secret, cfdo.Options{}, "InsecureHTTP"},
		{"http://127.0.0.1.example:80", secret, cfdo.Options{}, "InsecureHTTP"},
		{"https://%zz", secret, cfdo.Options{}, "URL"},
		{url, "", cfdo.Options{}, "wrangler secret put"},
		{url, "two words", cfdo.Options{}, "openssl"},
		{url, "a\nheader: x", cfdo.Options{}, "openssl"},
		{url, secret, cfdo.Options{Timeout: -1}, "negative"},
		{url, secret, cfdo.Options{Requests: -1}, "negative"},
	} {
		if _, err := cfdo.Open(c.url, c.secret, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%q, %q, %+v): %v; want something about %q", c.url, c.secret, c.o, err, c.want)
		}
	}
	for _, good := range []string{url, url + "/", "http://127.0.0.1:8787", "http://[::1]:8787", "http://localhost:8787"} {
		if _, err := cfdo.Open(good, secret); err != nil {
			t.Error(err)
		}
	}
	if _, err := cfdo.Open("http://limits.example", secret, cfdo.Options{InsecureHTTP: true}); err != nil {
		t.Error(err)
	}
}

// Whatever is wrong with a URL, its error repeats no part that can be a secret: errors
// end up in logs.
func TestErrorsOfOpenHoldNoSecretOfTheURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"https://user:PASSWORD@limits.example",
		"https://PASSWORD@limits.example",
		"https://user:PASSWORD@limits.example:bad",
		"https://user:PASSWORD@[limits.example",
		"https://user:PASSWORD@",
		"https://user:PASSWORD",
		"https://us er:PASSWORD@limits.example",
		"https://user:PASSWORD%zz@limits.example",
		"http://user:PASSWORD@limits.example",
		"user:PASSWORD@limits.example",
		"//user:PASSWORD@limits.example",
		"ftp://user:PASSWORD@limits.example",
		"https:user:PASSWORD@limits.example",
		"https://limits.example?token=PASSWORD",
		"https://limits.example/PASSWORD",
		"https://limits.example#PASSWORD",
		"https://limits.example/%zzPASSWORD",
		"https://user:PASSWORD@limits.example\n",
		"PASSWORD",
	} {
		_, err := cfdo.Open(url, "sesame")
		switch {
		case err == nil:
			t.Errorf("%q is accepted", url)
		case strings.Contains(err.Error(), "PASSWORD"):
			t.Errorf("%q is refused with its password: %v", url, err)
		case !strings.HasPrefix(err.Error(), "cfdo: the URL"):
			t.Errorf("%q is refused with %v", url, err)
		}
	}
}
