package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/wskit/wskit/errors"
)

// A plan is who sits in which room, on all servers: rooms by name, and in each its
// members by id.
type plan map[string]map[string]Member

// seats reads where everybody sits: the seats of all servers, by connection.
func (rs *Rooms) seats(ctx context.Context) (map[string]Seat, error) {
	all, err := rs.backend.Presence.Members(ctx, seatsTopic)
	if err != nil {
		return nil, errors.Unavailable.Wrap(err, "the rooms cannot be seen just now")
	}
	seats := make(map[string]Seat, len(all))
	for _, m := range all {
		var s Seat
		if json.Unmarshal(m.Data, &s) == nil { // else it is of a newer version of the chat
			seats[m.ID] = s
		}
	}
	return seats, nil
}

// planOf makes the plan of seats. Connections of one tab that give different names
// are one member, whose name is that of the same connection each time.
func planOf(seats map[string]Seat) plan {
	p := make(plan)
	for _, conn := range slices.Sorted(maps.Keys(seats)) {
		s := seats[conn]
		if p[s.Room] == nil {
			p[s.Room] = make(map[string]Member)
		}
		p[s.Room][s.ID] = s.Member
	}
	return p
}

// rooms is how many there are, the lobbies included.
func (p plan) rooms() int { return len(p.sizes()) }

func (p plan) size(room string) RoomSize { return RoomSize{Name: room, Members: len(p[room])} }

func (p plan) sizes() []RoomSize {
	var sizes []RoomSize
	for _, room := range lobbies {
		sizes = append(sizes, p.size(room))
	}
	for room := range p {
		if !isLobby(room) {
			sizes = append(sizes, p.size(room))
		}
	}
	return sizes
}

func (p plan) members(room string) []Member {
	list := make([]Member, 0, len(p[room]))
	for _, m := range p[room] {
		list = append(list, m)
	}
	return list
}
