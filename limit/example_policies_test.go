package limit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// at is a store whose clock the example moves, and a round instant to begin at.
func at() (store memory.Store, clock *time.Time) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return memory.NewStore(memory.Options{Now: func() time.Time { return now }}), &now
}

// A quota of the calendar begins anew with each window, here at every full hour.
func ExampleFixedWindow() {
	store, clock := at()
	l := limit.New(store, limit.FixedWindow{Limit: 2, Window: time.Hour})
	*clock = clock.Add(50 * time.Minute)
	l.Take(context.Background(), limit.KeyOf("ann"), 2)
	d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, "again in", d.RetryAfter)
	// Output: false again in 10m0s
}

// A quota that begins anew on the first of the month in Tokyo, which is the last of November in London.
func ExampleCalendar() {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		log.Fatal(err)
	}
	store, clock := at()
	l := limit.New(store, limit.Calendar{Limit: 1000, Period: limit.Month, Location: tokyo})
	*clock = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	l.Take(context.Background(), limit.KeyOf("ann"), 1000)
	d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, "again in", d.RetryAfter)
	// Output: false again in 1h0m0s
}

// What was admitted in the window before counts less and less.
func ExampleSlidingWindow() {
	store, clock := at()
	l := limit.New(store, limit.SlidingWindow{Limit: 10, Window: time.Minute})
	l.Take(context.Background(), limit.KeyOf("ann"), 10)
	d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, "again in", d.RetryAfter)
	*clock = clock.Add(90 * time.Second)
	d, _ = l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, d.Remaining, "left")
	// Output:
	// false again in 1m6s
	// true 4 left
}

// Five failed logins in any 15 minutes, not in those of a calendar.
func ExampleSlidingLog() {
	store, clock := at()
	l := limit.New(store, limit.SlidingLog{Limit: 5, Window: 15 * time.Minute})
	for range 5 {
		l.Take(context.Background(), limit.KeyOf("ann"), 1)
		*clock = clock.Add(time.Minute)
	}
	d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, "again in", d.RetryAfter)
	// Output: false again in 10m0s
}

// Instead of a denial there is a place in the line.
func ExamplePacer() {
	store, _ := at()
	l := limit.New(store, limit.Pacer{Burst: 1, Refill: 2, Per: time.Second, MaxWait: time.Second})
	for range 4 {
		d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
		fmt.Println(d.Allowed, d.Wait, d.RetryAfter)
	}
	// Output:
	// true 0s 0s
	// true 500ms 0s
	// true 1s 0s
	// false 0s 500ms
}

// Three at once and five a minute, charged together or not at all.
func ExampleAll() {
	store, clock := at()
	l := limit.New(store, limit.All(
		limit.Named("burst", limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Second}),
		limit.Named("minute", limit.FixedWindow{Limit: 5, Window: time.Minute}),
	))
	for range 7 {
		d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
		fmt.Println(d.Allowed, d.Policy, d.RetryAfter)
		*clock = clock.Add(500 * time.Millisecond)
	}
	// Output:
	// true burst 0s
	// true burst 0s
	// true burst 0s
	// true burst 0s
	// true burst 0s
	// false minute 57.5s
	// false minute 57s
}

// How much is left, without taking any.
func ExampleDecision_Forecast() {
	store, _ := at()
	l := limit.New(store, limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Second})
	l.Take(context.Background(), limit.KeyOf("ann"), 4)
	for _, cost := range []int64{1, 3, 8, 11} {
		d, _ := l.Peek(context.Background(), limit.KeyOf("ann"), cost)
		f := d.Forecast(cost)
		fmt.Println(f.Fits, f.NextAfter, f.FullAfter, f.Impossible)
	}
	// Output:
	// 6 0s 4s false
	// 2 0s 4s false
	// 0 2s 4s false
	// 0 0s 4s true
}

// Peek is a Take that takes nothing.
func ExampleLimiter_Peek() {
	store, _ := at()
	l := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second})
	for range 2 {
		d, _ := l.Peek(context.Background(), limit.KeyOf("ann"), 2)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 2
}

// What was charged for work that did not happen is given back.
func ExampleLimiter_Refund() {
	store, _ := at()
	l := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour})
	taken, _ := l.Take(context.Background(), limit.KeyOf("ann"), 2)
	l.Refund(context.Background(), limit.KeyOf("ann"), taken)
	d, _ := l.Peek(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Remaining)
	// Output: 2
}

// A support desk resets the limit of a user.
func ExampleLimiter_Reset() {
	store, _ := at()
	l := limit.New(store, limit.SlidingLog{Limit: 5, Window: 24 * time.Hour})
	l.Take(context.Background(), limit.KeyOf("ann"), 5)
	l.Reset(context.Background(), limit.KeyOf("ann"))
	d, _ := l.Take(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, d.Remaining)
	// Output: true 4
}

// A message has to fit both its user's limit and the tenant's; one that does
// not charges neither.
func ExampleTakeAll() {
	store, _ := at()
	users := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second}, limit.Options{Name: "user"})
	tenants := limit.New(store, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Second}, limit.Options{Name: "tenant"})
	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		asks := []limit.Ask{
			users.Ask(users.Key(nil).Part("acme").Part(user), 1),
			tenants.Ask(tenants.Key(nil).Part("acme"), 1),
		}
		bound, err := limit.TakeAll(context.Background(), asks)
		fmt.Println(user, asks[bound].Decision.Allowed, bound, err)
	}
	// Output:
	// ann true 0 <nil>
	// ann true 0 <nil>
	// ann false 0 <nil>
	// bob true 1 <nil>
	// bob false 1 <nil>
}

// Several keys in one round trip, each decided by itself.
func ExampleTakeMany() {
	store, _ := at()
	l := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second})
	asks := []limit.Ask{l.Ask(l.Key(nil).Part("ann"), 2), l.Ask(l.Key(nil).Part("ann"), 1), l.Ask(l.Key(nil).Part("bob"), 1)}
	if err := limit.TakeMany(context.Background(), asks); err != nil {
		panic(err)
	}
	for _, a := range asks {
		d := a.Decision
		fmt.Println(d.Allowed)
	}
	// Output:
	// true
	// false
	// true
}

// A plan is the algorithm without a store: state in, state out.
func ExamplePlan() {
	plan, err := limit.Compile(limit.FixedWindow{Limit: 2, Window: time.Second})
	if err != nil {
		panic(err)
	}
	var d limit.Decision
	var state []int64
	for now := int64(5_000_000); now < 5_000_003; now++ {
		state, _ = plan.Take(&d, state, now, 1)
		fmt.Println(d.Allowed, state)
	}
	// Output:
	// true [5000000 1]
	// true [5000000 2]
	// false [5000000 2]
}
