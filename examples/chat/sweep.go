package main

import (
	"context"
	"log/slog"
	"maps"
	"time"
)

// sweepEvery is how often a server looks for members that went without a word,
// because their server did.
const sweepEvery = 5 * time.Second

// Room is how a room stands: who is in it, and how many are in the others.
type Room struct {
	Room    string     `json:"room"`
	Members []Member   `json:"members"`
	Rooms   []RoomSize `json:"rooms"`
}

// Sweep tells this server's tabs how their rooms stand whenever that has changed,
// until ctx is done. Nearly always they know it already; they do not when another
// server was killed.
func (rs *Rooms) Sweep(ctx context.Context) {
	for ticks := time.NewTicker(sweepEvery); ; {
		select {
		case <-ctx.Done():
			ticks.Stop()
			return
		case <-ticks.C:
			rs.sweep(ctx)
		}
	}
}

func (rs *Rooms) sweep(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if rs.take(within) != nil {
		return // there is a next time
	}
	defer rs.done()
	seats, err := rs.seats(within)
	if err != nil {
		if ctx.Err() == nil {
			slog.Error("chat: looking for who is here failed", "error", err)
		}
		return
	}
	now := planOf(seats)
	same := maps.EqualFunc(rs.seen, now, func(a, b map[string]Member) bool { return maps.Equal(a, b) })
	rs.seen = now
	if same {
		return
	}
	for conn, s := range rs.here {
		_ = conn.Send("room.state", Room{Room: s.Room, Members: now.members(s.Room), Rooms: now.sizes()})
	}
}
