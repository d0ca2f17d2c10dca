package limit_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/limit"
)

// Two limiters whose states are mixed up are named in the log, and no others.
func TestOnePolicyForOneName(t *testing.T) {
	t.Parallel()
	five, six := limit.FixedWindow{Limit: 5, Window: time.Minute}, limit.FixedWindow{Limit: 6, Window: time.Minute}
	bucket := limit.TokenBucket{Capacity: 5, Refill: 5, Per: time.Minute}
	for name, tc := range map[string]struct {
		second limit.Policy
		other  limit.Options
		warned bool
	}{
		"another number":     {six, limit.Options{Name: "address"}, true},
		"another algorithm":  {bucket, limit.Options{Name: "address"}, true},
		"the same policy":    {five, limit.Options{Name: "address"}, false},
		"another name":       {six, limit.Options{Name: "user"}, false},
		"another prefix":     {six, limit.Options{Name: "address", Prefix: "board"}, false},
		"without a name":     {six, limit.Options{}, false},
		"a composed policy":  {limit.All(five, bucket), limit.Options{Name: "address"}, true},
		"another name of it": {limit.Named("addresses", five), limit.Options{Name: "address"}, false},
	} {
		var log bytes.Buffer
		store := memory.NewStore()
		first := limit.New(store, five, limit.Options{Name: "address"})
		tc.other.Logger = slog.New(slog.NewTextHandler(&log, nil))
		second := limit.New(store, tc.second, tc.other)
		if _, err := first.With(six); err != nil { // the way to change a policy
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "two limiters have one name and different policies"); got != tc.warned {
			t.Errorf("%s: the log says %q", name, log.String())
		}
		if _, err := second.Take(t.Context(), limit.KeyOf("ann"), 1); err != nil {
			t.Error(err)
		}
	}
}

// A limiter of another store has states of its own, and a limiter that is not used any more takes no memory.
func TestNamesAreForgotten(t *testing.T) {
	var log bytes.Buffer
	before := limit.Namespaces()
	for i := range 100 {
		store := memory.NewStore()
		limit.New(store, limit.FixedWindow{Limit: int64(1 + i), Window: time.Minute}, limit.Options{
			Name: "address", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
	}
	if log.Len() > 0 {
		t.Errorf("the log says %q", log.String())
	}
	poll.Until(t, "limiters are forgotten", func() bool {
		runtime.GC()
		return limit.Namespaces() <= before
	})
}
