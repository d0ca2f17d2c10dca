package limit

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/errors"
)

// Policy says how much is allowed in which time. It is a closed set: the
// algorithms of this package, [All] of several, any of them with a name of its
// own ([Named]), and the [Plan] that [Compile] makes of one.
//
// String returns the name that [Decision.Policy] reports.
type Policy interface {
	String() string
	compile() (*Plan, error)
}

// TokenBucket admits a burst of Capacity and Refill more every Per, refilled
// continuously: of 100 per second, one every 10 ms. It is the policy for most
// jobs: it forgives a burst, enforces a rate, and needs 16 bytes per key.
//
// Over any span of time s it admits at most Capacity + Refill·s/Per.
type TokenBucket struct {
	// Capacity is the size of the bucket, at least 1: the largest burst, and
	// the largest cost that can ever be admitted.
	Capacity int64
	// Refill tokens flow in every Per, at least 1.
	Refill int64
	// Per is at least 1 ms and a whole number of microseconds.
	Per time.Duration
}

// String returns "token_bucket(Capacity,Refill/Per)".
func (b TokenBucket) String() string {
	return fmt.Sprintf("token_bucket(%d,%d/%v)", b.Capacity, b.Refill, b.Per)
}

// Named gives a policy a name of its own, which [Decision.Policy] reports
// instead of the description of its numbers. The name is for people and
// metrics; it is no part of a key.
func Named(name string, policy Policy) Policy {
	return named{name: name, policy: policy}
}

type named struct {
	name   string
	policy Policy
}

func (n named) String() string { return n.name }

func (n named) compile() (*Plan, error) {
	if n.name == "" {
		return nil, errors.New("limit: Named with an empty name: give it one, or use the policy as it is")
	}
	plan, err := Compile(n.policy)
	if err != nil {
		return nil, fmt.Errorf("%w (in the policy named %q)", err, n.name)
	}
	return plan.named(n.name), nil
}

// Validate reports what is wrong with a policy and what would be right. Use it
// for policies that come from configuration; [New] panics on an invalid one.
func Validate(policy Policy) error {
	_, err := Compile(policy)
	return err
}
