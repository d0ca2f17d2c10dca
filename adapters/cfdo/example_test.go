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
		Tenant: cfdo.KeyPart(1, "user"), // the keys of ratelimit.PerUserPerType: user:tenant:user:type
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

// The tenant is the first part of every key, or the second of the keys of users; those of
// addresses name none.
func ExampleKeyPart() {
	first, ofUsers := cfdo.KeyPart(0), cfdo.KeyPart(1, "user")
	fmt.Println(first("wskit:messages:acme:ann"))
	fmt.Printf("%q %q\n", ofUsers("wskit:messages:user:acme:ann"), ofUsers("wskit:messages:ip:192.0.2.1"))
	// Output:
	// acme
	// "acme" ""
}
