package memory_test

import (
	"fmt"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestPresence(t *testing.T) {
	pubsubtest.RunPresence(t, func(t *testing.T, n int) []pubsub.Presence {
		p := memory.NewPresence()
		// A topic without members leaves nothing behind.
		t.Cleanup(func() {
			if n := memory.PlacesOf(p); n != 0 {
				t.Errorf("%d topics are left after all members have left", n)
			}
		})
		all := make([]pubsub.Presence, n)
		for i := range all {
			all[i] = p
		}
		return all
	})
}

func ExampleNewPresence() {
	p := memory.NewPresence()
	_ = p.Join(ctx, "room:a", pubsub.Member{ID: "connection 1", User: "ann"})
	members, _ := p.Members(ctx, "room:a")
	for _, m := range members {
		fmt.Println(m.User)
	}
	p.Leave("room:a", "connection 1")
	members, _ = p.Members(ctx, "room:a")
	fmt.Println(len(members))
	// Output:
	// ann
	// 0
}
