package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// A burst of three, then one more every second.
func Example() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}) // a clock that stands still, for the example
	messages := limit.New(store, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Second})

	for range 4 {
		d, err := messages.Take(context.Background(), limit.KeyOf("ann"), 1)
		switch {
		case err != nil:
			fmt.Println("no decision:", err)
		case d.Allowed:
			fmt.Println("go on,", d.Remaining, "left")
		case d.Impossible:
			fmt.Println("never")
		default:
			fmt.Println("wait", d.RetryAfter)
		}
	}
	// Output:
	// go on, 2 left
	// go on, 1 left
	// go on, 0 left
	// wait 1s
}

// Any rational rate is exact: the wait is that of 7 per 3 s, to the microsecond.
func ExampleTokenBucket() {
	plan, err := limit.Compile(limit.TokenBucket{Capacity: 7, Refill: 7, Per: 3 * time.Second})
	if err != nil {
		panic(err)
	}
	var d limit.Decision
	now := time.Now().UnixMicro()
	state, _ := plan.Take(&d, nil, now, 7)
	plan.Take(&d, state, now, 1)
	fmt.Println(d.Allowed, d.RetryAfter, d.ResetAfter)
	// Output: false 428.572ms 3s
}

// A cost above the capacity differs from one that has to wait.
func ExampleDecision() {
	store := memory.NewStore()
	bytes := limit.New(store, limit.TokenBucket{Capacity: 1 << 20, Refill: 1 << 20, Per: time.Second})
	d, _ := bytes.Take(context.Background(), limit.KeyOf("ann"), 5<<20)
	fmt.Println(d.Allowed, d.Impossible, d.RetryAfter)
	// Output: false true 0s
}

// What is wrong with a policy from a configuration file, and what would be
// right.
func ExampleCompile() {
	_, err := limit.Compile(limit.TokenBucket{Capacity: 100, Refill: 10})
	fmt.Println(err)
	// Output: limit: token_bucket(100,10/0s): Per must be at least 1ms; for a higher rate raise the number instead of shortening the time
}

// The name is what decisions, logs and metrics call the policy.
func ExampleNamed() {
	policy := limit.Named("chat-burst", limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second})
	l := limit.New(memory.NewStore(), policy)
	d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Policy)
	// Output: chat-burst
}

// Parts of a key never run into each other, whatever they contain, and what is
// missing is not a value.
func ExampleKey() {
	store := memory.NewStore()
	l := limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}, limit.Options{Name: "chat"})

	fmt.Println(l.Key(nil).Part("acme").Part("ann").Part("chat.send"))
	fmt.Println(l.Key(nil).Part("acme:ann").Part("chat.send"))
	fmt.Println(l.Key(nil).Part("acme").Part("").Part("chat.send"))
	// Output:
	// wskit:chat:acme:ann:chat.send
	// wskit:chat:acme%3Aann:chat.send
	// wskit:chat:acme:%none:chat.send
}

// Try a limit on real traffic before it refuses anything.
func ExampleOptions_shadow() {
	store := memory.NewStore()
	l := limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}, limit.Options{Shadow: true})
	for range 3 {
		l.Take(context.Background(), limit.KeyOf("ann"), 1)
	}
	fmt.Println("would have refused", l.Stats().Shadowed)
	// Output: would have refused 2
}

// A store that fails does not stop the service: by default the process goes on
// by itself, with the same policy.
func ExampleFailure() {
	down := storeFunc(func(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
		return limit.Decision{}, fmt.Errorf("connection refused")
	})
	l := limit.New(down, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour}, limit.Options{Name: "chat"})
	for range 3 {
		d, err := l.Take(context.Background(), limit.KeyOf("ann"), 1)
		fmt.Println(d.Allowed, err)
	}
	fmt.Println("failed over:", l.Stats().FailedOver)
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// failed over: 3
}
