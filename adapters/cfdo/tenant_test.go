package cfdo_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// failing has one object fail, or all be overloaded.
type failing struct{ what string }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Test-Fail", f.what)
	return http.DefaultTransport.RoundTrip(r)
}

// Each tenant has objects of its own, as many as the Worker is configured for, and what
// happens to one touches no other.
func TestTenantsHaveObjectsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{Env: map[string]string{
		"SHARDS": "3", "TENANT_SHARDS": `{"*": 1, "big": 4}`,
	}})
	s := openStore(t, w.URL, cfdo.Options{Tenant: cfdo.KeyPart(1, "user")})
	l := limit.New(s, ten, limit.Options{Name: "m", Timeout: poll.Guard})
	for i := range 100 {
		for _, k := range []limit.Key{
			l.Key(nil).Part("user").Part("acme").Part(fmt.Sprint(i)),
			l.Key(nil).Part("user").Part("a:b*").Part(fmt.Sprint(i)),
			l.Key(nil).Part("user").Part("big").Part(fmt.Sprint(i)),
			l.Key(nil).Part("user").Part("").Part(fmt.Sprint(i)),
			l.Key(nil).Part("ip").Part(fmt.Sprint("192.0.2.", i)),
		} {
			if d, err := l.Take(ctx, k, 1); err != nil || !d.Allowed {
				t.Fatalf("%s: %+v, %v", k, d, err)
			}
		}
	}
	rows := func(objects ...string) (n int) {
		for _, o := range objects {
			n += w.Inspect(o).Rows
		}
		return n
	}
	for _, c := range []struct {
		objects []string
		want    int
	}{
		{[]string{"tenant:acme:0"}, 100},
		{[]string{"tenant:a%25253Ab%25252A:0"}, 100}, // what is escaped in the key, escaped, and again in the test's URL
		{[]string{"tenant:big:0", "tenant:big:1", "tenant:big:2", "tenant:big:3"}, 100},
		{[]string{"shard:0", "shard:1", "shard:2"}, 200},
	} {
		if n := rows(c.objects...); n != c.want {
			t.Errorf("%v have %d rows, want %d", c.objects, n, c.want)
		}
		for _, o := range c.objects {
			if len(c.objects) > 1 && rows(o) == 0 {
				t.Errorf("%s has none", o)
			}
		}
	}
}

// The calls of an object that fails fail; the others of the same request do not.
func TestObjectsFailApart(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	well, sick := own("well"), own("sick")
	tenant := cfdo.KeyPart(0)
	s := openStore(t, w.URL, cfdo.Options{Tenant: tenant, Transport: failing{"tenant:" + sick + ":0"}})
	asks := []limit.Ask{{Key: []byte("p:n:" + well), Policy: ten, Cost: 1}, {Key: []byte("p:n:" + sick), Policy: ten, Cost: 1}}
	if err := s.TakeMany(ctx, asks); !errors.Is(err, cfdo.ErrFailed) {
		t.Errorf("error %v, want that the object failed", err)
	}
	if d := take(t, s, "p:n:"+well, ten, 1); d.Remaining != 8 {
		t.Errorf("the object that is well: %+v", d)
	}
	if _, err := s.Take(ctx, []byte("p:n:"+sick), ten, 1); !errors.Is(err, cfdo.ErrFailed) {
		t.Errorf("error %v, want that the object failed", err)
	}
	s = openStore(t, w.URL, cfdo.Options{Transport: failing{"overloaded"}})
	if _, err := s.Take(ctx, []byte("k"), ten, 1); !errors.Is(err, cfdo.ErrOverloaded) {
		t.Errorf("error %v, want that the object is overloaded", err)
	}
	s = openStore(t, w.URL, cfdo.Options{Tenant: tenant})
	if d := take(t, s, "p:n:"+sick, ten, 1); d.Remaining != 9 {
		t.Errorf("what failed was charged: %+v", d)
	}
}

// Only one object can charge all or none. Keys that lie in several are refused as
// what cannot be done, and nothing of them is charged.
func TestTakeAllIsForOneObject(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	s := openStore(t, w.URL, cfdo.Options{Tenant: cfdo.KeyPart(0)})
	a, b := own("a"), own("b")
	all := func(keys ...string) error {
		var requests []limit.Ask
		for _, k := range keys {
			requests = append(requests, limit.Ask{Key: []byte(k), Policy: ten, Cost: 1})
		}
		_, err := s.TakeAll(ctx, requests)
		return err
	}
	if err := all("p:n:"+a+":1", "p:n:"+b+":1"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("two tenants at once: %v", err)
	}
	if err := all("p:n:"+a+":1", "p:n:"+a+":2"); err != nil {
		t.Errorf("two keys of one tenant: %v", err)
	}
	if d := take(t, s, "p:n:"+b+":1", ten, 1); d.Remaining != 9 {
		t.Errorf("what was refused was charged: %+v", d)
	}
	if d := take(t, s, "p:n:"+a+":1", ten, 1); d.Remaining != 8 {
		t.Errorf("what was not refused was not charged: %+v", d)
	}
}

func TestTenantOfKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of        func(string) string
		key, want string
	}{
		{cfdo.KeyPart(0), "wskit:m:acme:ann", "acme"},
		{cfdo.KeyPart(1), "wskit:m:acme:ann", "ann"},
		{cfdo.KeyPart(2), "wskit:m:acme:ann", ""},
		{cfdo.KeyPart(0), "wskit:m:%none:ann", ""},
		{cfdo.KeyPart(0), "wskit:m:a%3Ab", "a%3Ab"},
		{cfdo.KeyPart(0), "wskit:m", ""},
		{cfdo.KeyPart(0), "", ""},
		{cfdo.KeyPart(1, "user"), "wskit:m:user:acme:ann", "acme"},
		{cfdo.KeyPart(1, "user"), "wskit:m:ip:192.0.2.1", ""},
		{cfdo.KeyPart(1, "user"), "wskit:m:user", ""},
		{cfdo.KeyPart(1, "user"), "wskit:user:acme", ""},
	} {
		if got := c.of(c.key); got != c.want {
			t.Errorf("%q belongs to %q, want %q", c.key, got, c.want)
		}
	}
	for name, f := range map[string]func(){
		"a negative index": func() { cfdo.KeyPart(-1) }, "two first parts": func() { cfdo.KeyPart(1, "a", "b") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("KeyPart with %s does not panic", name)
				}
			}()
			f()
		}()
	}
}

// Another Worker shares a budget with the limiters of this process.
func TestCheckEndpoint(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	s := openStore(t, w.URL, cfdo.Options{Tenant: cfdo.KeyPart(0)})
	l := limit.New(s, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour}, limit.Options{Name: "messages", Timeout: poll.Guard})
	acme := own("acme")
	d, err := l.Take(ctx, l.Key(nil).Part(acme).Part("ann"), 1)
	if err != nil || d.Remaining != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	type answer struct {
		Allowed      bool
		Remaining    int64
		ResetAt      int64
		Limit        int64
		RetryAfterMs *int64
		Error        struct{ Code, Message string }
	}
	check := func(body string) (a answer, status int) {
		t.Helper()
		status, err := post(w.URL+"/v1/check", body, &a)
		if err != nil {
			t.Fatal(err)
		}
		return a, status
	}
	call := `{"tenant": "` + acme + `", "key": "wskit:messages:` + acme + `:ann", "policy": {"kind": "token_bucket", "capacity": 3, "refill": 1, "per": 3600000000}`
	hours := func(ms int64) float64 { return time.Duration(ms*1000-d.At).Hours() * 1000 }
	if a, _ := check(call + `, "peek": true}`); !a.Allowed || a.Remaining != 2 || a.Limit != 3 {
		t.Errorf("a look: %+v", a)
	}
	if a, _ := check(call + `}`); !a.Allowed || a.Remaining != 1 || hours(a.ResetAt) < 1.5 || hours(a.ResetAt) > 2.1 || *a.RetryAfterMs != 0 {
		t.Errorf("the second of three: %+v", a)
	}
	if a, _ := check(call + `, "cost": 2}`); a.Allowed || a.Remaining != 1 || *a.RetryAfterMs < 1 || *a.RetryAfterMs > 3_600_000 {
		t.Errorf("two more: %+v", a)
	}
	if a, _ := check(call + `, "cost": 4}`); a.Allowed || a.RetryAfterMs != nil {
		t.Errorf("what can never fit: %+v", a)
	}
	if d, err := l.Take(ctx, l.Key(nil).Part(acme).Part("ann"), 1); err != nil || d.Remaining != 0 {
		t.Errorf("the third, through the limiter: %+v, %v", d, err)
	}
	if a, status := check(call + `, "cost": 0}`); status != http.StatusBadRequest || a.Allowed || a.Error.Code != "bad_request" || a.Error.Message == "" {
		t.Errorf("a cost of nothing: %d, %+v", status, a)
	}
}
