package server

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// occupant is the data of a connection in the presence of its room.
type occupant struct {
	Member
	Server string `json:"server"`
}

// countsTopic is the topic of the counts: in its presence, each server has a member for each
// room with tabs of this server.
const countsTopic = "counts"

// count is the number of members of a room on one server.
type count struct {
	RoomSize
	Server string `json:"server"`
}

func (rs *Rooms) count(own map[string]int) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	for name, n := range own {
		id := rs.self + "/" + name
		if n == 0 {
			rs.backend.Presence.Leave(countsTopic, id)
			continue
		}
		data, err := json.Marshal(count{RoomSize{name, n}, rs.self})
		if err == nil {
			err = rs.backend.Presence.Join(ctx, countsTopic, pubsub.Member{ID: id, Data: data})
		}
		if err != nil {
			slog.Error("chat: counting members failed", "room", name, "error", err)
		}
	}
}

// readCounts reads the number of members of the rooms on the other servers, and returns the
// sizes that have changed.
func (rs *Rooms) readCounts(ctx context.Context) (changed RoomsChanged, err error) {
	all, err := rs.backend.Presence.Members(ctx, countsTopic)
	if err != nil {
		return changed, err
	}
	elsewhere := make(map[string]int)
	for _, m := range all {
		var c count
		if json.Unmarshal(m.Data, &c) == nil && c.Server != rs.self {
			elsewhere[c.Name] += c.Members
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	differ := make(map[string]struct{})
	for _, counts := range []map[string]int{rs.elsewhere, elsewhere} {
		for name := range counts {
			if rs.elsewhere[name] != elsewhere[name] && rs.rooms[name] == nil {
				differ[name] = struct{}{}
			}
		}
	}
	rs.elsewhere = elsewhere
	return rs.changes(differ), nil
}

// readOthers reads the members of a room on the other servers.
func (rs *Rooms) readOthers(ctx context.Context, name string) error {
	if !rs.backend.Shared {
		return nil
	}
	all, err := rs.backend.Presence.Members(ctx, topicOf(name))
	if err != nil {
		return errors.Unavailable.Wrap(err, "the members of the room cannot be read at the moment")
	}
	others := make(map[string]Member)
	for _, m := range all {
		var o occupant
		if json.Unmarshal(m.Data, &o) == nil && o.Server != rs.self { // else it is from a newer version of the chat
			others[m.ID] = o.Member
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.rooms[name]; r != nil {
		r.update(others)
	}
	return nil
}
