package sharedrules_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/middleware/sharedrules"
)

// Rules of a file are in force until rules are set for all processes. In production the log is that of redis.Open.
func Example() {
	given, err := rules.Parse([]byte(`{"default": {"perMinute": 60, "burst": 10}}`))
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := rules.New(memory.NewStore(), given)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	shared, err := sharedrules.Follow(ctx, memory.NewBroker(), limiter)
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()

	err = shared.Replace(ctx, []byte(`{"default": {"perMinute": 6, "burst": 1}}`)) // while users complain
	if errors.CodeOf(err) == errors.Aborted {
		fmt.Println("somebody else was faster: look at the rules again")
	}
	fmt.Println(err, limiter.Rules().Default.Burst)
	// Output: <nil> 1
}
