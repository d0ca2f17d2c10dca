package router

import (
	"fmt"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
)

// withMemory keeps in memory what a Backend leaves open, but for the broker: without one, topics need none of its
// work, see historyLog.
func withMemory(b adapters.Backend) (adapters.Backend, error) {
	if b.Broker == nil && b.Presence != nil && b.Shared {
		return b, fmt.Errorf("router: Options.Backend has the Presence %T, which other processes share, and no Broker: members would be listed whom nothing reaches; set Broker, or set Presence to memory.NewPresence()", b.Presence)
	}
	if b.Presence == nil {
		b.Presence = memory.NewPresence()
	}
	if b.Idempotency == nil {
		b.Idempotency = memory.NewIdempotency(memory.IdempotencyOptions{})
	}
	return b, nil
}
