package server

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/wskit/wskit/router"
)

// sweepEvery is how often a server reads the members on other servers again: those of a killed
// server leave without an event.
const sweepEvery = 5 * time.Second

// Room is the state of a room: its members, and the sizes of the other rooms.
type Room struct {
	Room    string     `json:"room"`
	Members []Member   `json:"members"`
	Rooms   []RoomSize `json:"rooms"`
}

// Sweep sends this server's tabs the state of their room if it has changed, until ctx is done.
// Usually the tabs know it already, but not after another server was killed.
func (rs *Rooms) Sweep(ctx context.Context) {
	ticks := time.NewTicker(sweepEvery)
	defer ticks.Stop()
	for {
		rs.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (rs *Rooms) sweep(ctx context.Context) {
	rs.vacate()
	var changed RoomsChanged
	err := rs.within(ctx, func(ctx context.Context) (err error) {
		changed, err = rs.readCounts(ctx)
		return err
	})
	rs.mu.Lock()
	rooms, here := maps.Clone(rs.rooms), maps.Clone(rs.here)
	rs.mu.Unlock()
	for name := range rooms {
		if err == nil {
			err = rs.within(ctx, func(ctx context.Context) error { return rs.readOthers(ctx, name) })
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			slog.Error("chat: reading the members on other servers failed", "error", err)
		}
		return // the next sweep repeats it
	}
	if len(changed.Rooms)+len(changed.Removed) > 0 {
		for conn := range here {
			_ = rs.events.sizes.Send(conn.Context(), conn, changed)
		}
	}
	for _, r := range rooms {
		state, tabs := rs.state(r)
		for _, conn := range tabs {
			_ = rs.events.state.Send(conn.Context(), conn, state)
		}
	}
}

// within reads from the backend, for at most storeTime.
func (rs *Rooms) within(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return read(ctx)
}

// state returns the state of a room and the tabs to send it to: none if nothing has changed.
func (rs *Rooms) state(r *room) (state Room, tabs []*router.Conn) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !r.changedSinceSweep() {
		return state, nil
	}
	state = Room{Room: r.name, Rooms: rs.sizes()}
	for _, m := range r.seen {
		state.Members = append(state.Members, m)
	}
	for _, conn := range r.own {
		tabs = append(tabs, conn)
	}
	return state, tabs
}
