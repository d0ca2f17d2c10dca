package limit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// plainStore can do nothing but Take; values of its type cannot be compared, so whether two
// are the same store is unknown.
type plainStore struct{ _ []int }

func (plainStore) Take(context.Context, []byte, limit.Policy, int64) (d limit.Decision, err error) {
	return d, nil
}

// hiding is of a type that can be compared, whatever the store in it is of.
type hiding struct{ limit.Store }

func TestCanTakeAll(t *testing.T) {
	policy := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}
	store, other := memory.NewStore(), memory.NewStore()
	on := func(s limit.Store, shadow bool) *limit.Limiter {
		return limit.New(s, policy, limit.Options{Name: "n", Shadow: shadow})
	}
	plain := on(new(plainStore), false)
	many := make([]*limit.Limiter, 65)
	for i := range many {
		many[i] = on(store, false)
	}
	for _, tc := range []struct {
		name     string
		limiters []*limit.Limiter
		says     string
	}{
		{"none", nil, ""},
		{"two of one store", []*limit.Limiter{on(store, false), on(store, false)}, ""},
		{"one twice", []*limit.Limiter{plain, plain}, "no TakeAll"},
		{"as many as there may be", many[1:], ""},
		{"more", many, "at most 64"},
		{"shadows", []*limit.Limiter{on(store, true), on(store, true)}, ""},
		{"shadows over a plain store", []*limit.Limiter{on(new(plainStore), true)}, "no TakeAll"},
		{"a nil", []*limit.Limiter{on(store, false), nil}, "limiter 1 is nil"},
		{"a nil first", []*limit.Limiter{nil, on(store, false)}, "limiter 0 is nil"},
		{"two stores", []*limit.Limiter{on(store, false), on(other, false)}, "different stores"},
		{"stores that cannot be compared", []*limit.Limiter{on(plainStore{}, false), on(plainStore{}, false)}, "different stores"},
		{"stores that hide that they cannot", []*limit.Limiter{on(hiding{plainStore{}}, false), on(hiding{plainStore{}}, false)}, "different stores"},
	} {
		err := limit.CanTakeAll(tc.limiters...)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

func ExampleCanTakeAll() {
	policy := limit.TokenBucket{Capacity: 20, Refill: 10, Per: time.Second}
	store := memory.NewStore()
	user := limit.New(store, policy, limit.Options{Name: "user"})
	tenant := limit.New(store, policy, limit.Options{Name: "tenant"})
	elsewhere := limit.New(memory.NewStore(), policy, limit.Options{Name: "elsewhere"})
	fmt.Println(limit.CanTakeAll(user, tenant))
	fmt.Println(limit.CanTakeAll(user, elsewhere))
	// Output:
	// <nil>
	// limit: limiters user and elsewhere have different stores; make both with one, or call them one after the other
}
