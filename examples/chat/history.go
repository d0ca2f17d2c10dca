package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// History keeps the latest messages of each room.
type History interface {
	Add(context.Context, Message) error
	// Latest returns at most maxHistory messages, the oldest first.
	Latest(ctx context.Context, room string) ([]Message, error)
}

// memoryHistory is the history of one server: of the lobbies, and of up to maxRooms other
// rooms. If there are more, the one with the oldest latest message is dropped.
type memoryHistory struct {
	mu     sync.Mutex
	byRoom map[string][]Message
}

func newMemoryHistory() *memoryHistory {
	return &memoryHistory{byRoom: make(map[string][]Message)}
}

func (h *memoryHistory) Add(_ context.Context, m Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.byRoom[m.Room]; !ok && !isLobby(m.Room) {
		h.dropOldest()
	}
	messages := h.byRoom[m.Room]
	if len(messages) == maxHistory {
		messages = slices.Clone(messages[1:]) // answers that are being sent use the old one
	}
	h.byRoom[m.Room] = append(messages, m)
	return nil
}

func (h *memoryHistory) Latest(_ context.Context, room string) ([]Message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byRoom[room], nil
}

// dropOldest drops a room if there are too many.
func (h *memoryHistory) dropOldest() {
	var rooms []string
	for room := range h.byRoom {
		if !isLobby(room) {
			rooms = append(rooms, room)
		}
	}
	if len(rooms) < maxRooms {
		return
	}
	last := func(room string) int64 { m := h.byRoom[room]; return m[len(m)-1].At.UnixNano() }
	delete(h.byRoom, slices.MinFunc(rooms, func(a, b string) int { return cmp.Compare(last(a), last(b)) }))
}
