package redis

import "time"

// Slot is for tests.
func Slot(key string) int { return slot(key) }

// ScriptID is the name of the script at a server.
var ScriptID = scriptID

// LookEvery sets the shortest time between two looks for evictions of a Store or a Broker.
func LookEvery(of any, d time.Duration) {
	switch of := of.(type) {
	case *store:
		of.evictions.every = d
	case *broker:
		of.evictions.every = d
	}
}

// KindOf is for tests.
func KindOf(err error) string { return kindOf(err) }

// PendingChanges is how many changes of a topic have yet to be written.
func PendingChanges(of Presence, topic string) int {
	p := of.(*presence)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.rooms[topic]; r != nil {
		return len(r.changed)
	}
	return 0
}

// PendingTopics is how many topics have members, or something to be written.
func PendingTopics(of Presence) int {
	p := of.(*presence)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rooms)
}

// ReadState is for tests.
func ReadState(dst []int64, text string) (state []int64, reset int64) { return readState(dst, text) }
