package limit_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

// ownStore keeps states in a map: the least that a store has to do.
type ownStore struct {
	mu     sync.Mutex
	states map[string][]int64
}

// LocalStore marks it as one that cannot fail: no policy for that is needed.
func (*ownStore) LocalStore() {}

func (s *ownStore) Take(_ context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := string(key) + "~" + plan.Shape() // policies that count differently have state of their own
	if state, write := plan.Take(&d, s.states[own], time.Now().UnixMicro(), cost); write {
		s.states[own] = state
	}
	return d, nil
}

// A store of one's own prepares, decides by the plan, and keeps what is to be kept.
// limittest.Run says whether it does all that a store must.
func ExamplePrepare() {
	policy := limit.TokenBucket{Capacity: 2, Refill: 2, Per: time.Hour}
	l := limit.New(&ownStore{states: map[string][]int64{}}, policy)
	for range 3 {
		d, err := l.Take(context.Background(), limit.KeyOf("ann"), 1)
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	_, err := l.Take(context.Background(), limit.KeyOf("ann"), 0)
	fmt.Println(err)
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
	// INVALID_ARGUMENT: limit: the cost is 0; it must be at least 1
}
