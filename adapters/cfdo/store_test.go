package cfdo_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

var ctx = context.Background()

// Rules are checked with few generated cases: each asks a process several times. -rapid.checks=100 checks more.
const generated = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", generated); err != nil {
			panic(err)
		}
	}
	workerdtest.Main(m)
}

// own returns a name that no other test has used: most share a Worker.
func own(what string) string { return what + "-" + rand.Text() }

// clocked sends the time of the test to the Worker.
type clocked struct {
	clock *limittest.Clock
	http.RoundTripper
}

func (c clocked) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Test-Now", strconv.FormatInt(c.clock.Now().UnixMicro(), 10))
	return c.RoundTripper.RoundTrip(r)
}

func openStore(t testing.TB, url string, o cfdo.Options) cfdo.Store {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = poll.Guard
	}
	s, err := cfdo.Open(url, workerdtest.Secret, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openAt opens a store that goes by a clock, all of it in one object.
func openAt(t testing.TB, url string, clock *limittest.Clock) cfdo.Store {
	t.Helper()
	tenant := fmt.Sprint("test-", tenants.Add(1))
	s, err := cfdo.OpenAt(url, workerdtest.Secret, cfdo.Options{
		Tenant: func(string) string { return tenant }, Timeout: poll.Guard, Transport: clocked{clock, http.DefaultTransport},
	}, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var tenants atomic.Int64

func TestStore(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{Store: openAt(t, w.URL, clock), Clock: clock, Steps: 20}
	})
}

func take(t testing.TB, s limit.Store, key string, p limit.Policy, cost int64) limit.Decision {
	t.Helper()
	d, err := s.Take(ctx, []byte(key), p, cost)
	if err != nil {
		t.Fatalf("Take of %q: %v", key, err)
	}
	return d
}
