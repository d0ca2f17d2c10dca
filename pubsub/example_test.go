package pubsub_test

import (
	"fmt"

	"github.com/wskit/wskit/pubsub"
)

// An implementation of Presence refuses members that are not valid.
func ExampleMember_Check() {
	fmt.Println(pubsub.Member{ID: "c1", User: "ann", Data: []byte(`{"name":"Ann"}`)}.Check())
	fmt.Println(pubsub.Member{User: "ann"}.Check())
	// Output:
	// <nil>
	// pubsub: the member has no ID
}
