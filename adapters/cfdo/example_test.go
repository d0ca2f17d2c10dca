package cfdo_test

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/limit"
)

// A limiter whose state several processes share. Across a network it is given more
// time than the 100 ms that a limiter waits otherwise.
func ExampleOpen() {
	store, err := cfdo.Open("https://wskit-limits.example.workers.dev", "the-secret-of-the-Worker", cfdo.Options{
		Tenant: cfdo.PartAfter("user"), // the keys of ratelimit.PerUserPerType: user:tenant:user:type
	})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	messages := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{
		Name: "messages", Timeout: 250 * time.Millisecond,
	})
	fmt.Println(messages.Name())
	// Output: messages
}

// The tenant is the first part of every key.
func ExampleKeyPart() {
	tenant := cfdo.KeyPart(0)
	fmt.Println(tenant("wskit:messages:acme:ann"))
	// Output: acme
}

// The keys of users name a tenant, those of addresses do not.
func ExamplePartAfter() {
	tenant := cfdo.PartAfter("user")
	fmt.Printf("%q %q\n", tenant("wskit:messages:user:acme:ann"), tenant("wskit:messages:ip:192.0.2.1"))
	// Output: "acme" ""
}
