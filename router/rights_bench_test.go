package router

import (
	"fmt"
	"io"
	"testing"
	"time"
)

// BenchmarkFanOutWithRights compares what publishing to two rooms takes, each of 100 members on sockets of their own, one
// message here and one there: the memberships of one room are for ever, those of the other end at a time, in a process
// in which 1,000 users have lost a right. rights/plain should be at most 1.01.
func BenchmarkFanOutWithRights(b *testing.B) {
	const members = 100
	r := New(Options{Addressing: AddressingOptions{Enabled: true}})
	defer r.Shutdown(b.Context())
	publish := func(room string) { _ = r.Publish(b.Context(), room, "note", "a short line of chat") }
	join := func(room string, o ...SubscribeOptions) {
		for range members {
			c, client := pair(b, r)
			if err := c.Subscribe(b.Context(), room, o...); err != nil {
				b.Fatal(err)
			}
			go io.Copy(io.Discard, client)
		}
	}
	join("plain")
	join("rights", SubscribeOptions{Until: time.Now().Add(time.Hour)})
	for i := range 1000 {
		if err := r.Revoke(b.Context(), Right{User: fmt.Sprint("user", i), Topics: "rights"}); err != nil {
			b.Fatal(err)
		}
	}
	var took [2]time.Duration
	for i := 0; b.Loop(); i++ {
		for j := range 2 {
			room := (i + j) % 2 // each is first in turn
			before := b.Elapsed()
			publish([]string{"plain", "rights"}[room])
			took[room] += b.Elapsed() - before
		}
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N)/members, "ns/plain")
	b.ReportMetric(float64(took[1].Nanoseconds())/float64(b.N)/members, "ns/rights")
	b.ReportMetric(float64(took[1])/float64(took[0]), "rights/plain")
}
