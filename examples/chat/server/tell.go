package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/wskit/wskit/router"
)

// sizesEvery is how often the sizes of rooms are sent, which go to all tabs.
const sizesEvery = 500 * time.Millisecond

// RoomsChanged are the sizes that have changed, and the rooms without members.
type RoomsChanged struct {
	Rooms   []RoomSize `json:"rooms"`
	Removed []string   `json:"removed"`
}

// tell makes a goroutine send the tabs of a room an event for a member that has joined, left or
// changed its name. A room has one goroutine for that, so the events are in order, and of several
// changes of one member at once only the last is sent. rs.mu is held.
func (rs *Rooms) tell(r *room, id string) {
	r.changed[id] = struct{}{}
	if !r.telling {
		r.telling = true
		go rs.tellMembers(r)
	}
}

// tellMembers sends the events of a room, until no member has changed.
func (rs *Rooms) tellMembers(r *room) {
	for {
		rs.mu.Lock()
		ids := slices.Collect(maps.Keys(r.changed))
		if len(ids) == 0 {
			r.telling = false
			rs.forget(r)
			rs.mu.Unlock()
			return
		}
		rs.mu.Unlock()
		// A member that left this server may be on another.
		err := rs.within(context.Background(), func(ctx context.Context) error { return rs.readOthers(ctx, r.name) })
		if err != nil {
			slog.Error("chat: events of members are left to the next sweep", "room", r.name, "error", err)
		}
		for _, id := range ids {
			rs.mu.Lock()
			m, here, changed := r.news(id)
			rs.mu.Unlock()
			if !changed || err != nil {
				continue
			}
			event := rs.events.left
			if here {
				event = rs.events.joined
			}
			publish(event, topicOf(r.name), Seat{Room: r.name, Member: m})
		}
	}
}

// forget drops a room without tabs of this server. rs.mu is held.
func (rs *Rooms) forget(r *room) {
	if len(r.own) > 0 || r.telling || rs.rooms[r.name] != r {
		return
	}
	delete(rs.rooms, r.name)
	delete(rs.elsewhere, r.name)
	if n := r.size(); n > 0 {
		rs.elsewhere[r.name] = n
	}
}

// resize makes a goroutine send the size of a room to all tabs, together with the other sizes
// that change within sizesEvery. rs.mu is held.
func (rs *Rooms) resize(name string) {
	rs.resized[name] = struct{}{}
	if !rs.sizing {
		rs.sizing = true
		time.AfterFunc(sizesEvery, rs.tellSizes)
	}
}

// tellSizes sends the sizes that have changed, and publishes this server's counts to the
// other servers.
func (rs *Rooms) tellSizes() {
	own := make(map[string]int)
	rs.mu.Lock()
	changed := rs.changes(rs.resized)
	for name := range rs.resized {
		own[name] = 0
		if r := rs.rooms[name]; r != nil {
			own[name] = r.ownSize()
		}
	}
	clear(rs.resized)
	rs.mu.Unlock()
	publish(rs.events.sizes, roomsTopic, changed)
	if rs.backend.Shared {
		rs.count(own)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.sizing = len(rs.resized) > 0; rs.sizing {
		time.AfterFunc(sizesEvery, rs.tellSizes)
	}
}

// changes has the sizes of the given rooms. rs.mu is held.
func (rs *Rooms) changes(names map[string]struct{}) (changed RoomsChanged) {
	for name := range names {
		if s := rs.size(name); s.Members > 0 || isLobby(name) {
			changed.Rooms = append(changed.Rooms, s)
		} else {
			changed.Removed = append(changed.Removed, name)
		}
	}
	return changed
}

// publish publishes an event. A tab that misses it gets the current state with its next join or
// the next sweep, so a failure is only logged.
func publish[T any](event router.Event[T], topic string, payload T) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if err := event.Publish(ctx, topic, payload); err != nil {
		slog.Error("chat: publishing failed", "topic", topic, "error", err)
	}
}
