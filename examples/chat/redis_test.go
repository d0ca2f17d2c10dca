package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/redistest"
)

// The history of rooms without members is bounded in Redis as in memory.
func TestHistoryOfRoomsInRedisIsBounded(t *testing.T) {
	server := redistest.Start(t)
	backend, err := onRedis(t.Context(), "redis://"+server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	at := time.Now()
	add := func(room string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := backend.History.Add(t.Context(), Message{Room: room, At: at}); err != nil {
			t.Fatal(err)
		}
	}
	add("lobby")
	for i := range maxRooms + 5 {
		add(fmt.Sprint("room", i))
	}
	for room, want := range map[string]int{"lobby": 1, "room4": 0, "room5": 1} {
		if got, err := backend.History.Latest(t.Context(), room); err != nil || len(got) != want {
			t.Errorf("of %s there are %d messages, want %d (%v)", room, len(got), want, err)
		}
	}
	if keys, _ := server.Do("KEYS", "*history*").([]any); len(keys) != maxRooms+2 { // with the lobby's and the index
		t.Errorf("Redis has %d keys", len(keys))
	}
}
