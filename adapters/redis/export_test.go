package redis

import "time"

// Slot is for tests.
func Slot(key string) int { return slot(key) }

// ScriptID is the name of the script at a server.
var ScriptID = scriptID

// LookEvery sets the shortest time between two looks for evictions.
func (s *Store) LookEvery(d time.Duration) { s.evictions.every = d }

// KindOf is for tests.
func KindOf(err error) string { return kindOf(err) }
