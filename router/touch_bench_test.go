package router

import (
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
)

// What a message of another process takes to find out that the process is in touch.
func BenchmarkInTouch(b *testing.B) {
	r := New(Options{Backend: adapters.Backend{Broker: memory.NewBroker()}, Addressing: AddressingOptions{Enabled: true}})
	defer r.Shutdown(b.Context())
	if err := r.cluster.AwaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	for !r.hub.Touch.Holds() {
	}
	b.ReportAllocs()
	for b.Loop() {
		if !r.hub.Touch.Holds() {
			b.Fatal("it is out of touch")
		}
	}
}
