package server

import (
	"maps"

	"github.com/wskit/wskit/router"
)

// A room is the state of a room in which this server has tabs. Each change takes the same time,
// for any number of members. The lock is that of Rooms.
type room struct {
	name  string
	own   map[string]*router.Conn        // the connections of this server, by ID
	seats map[string]Member              // of all servers, by connection
	conns map[string]map[string]struct{} // the connections of a member, by its ID

	// shown has the state of each member that the tabs have, from this server or another;
	// changed has the IDs of members about which this server will send an event; telling
	// means that a goroutine sends them.
	shown   map[string]Member
	changed map[string]struct{}
	telling bool

	seen map[string]Member // at the last sweep
}

func newRoom(name string) *room {
	return &room{
		name: name, own: make(map[string]*router.Conn),
		seats: make(map[string]Member), conns: make(map[string]map[string]struct{}),
		shown: make(map[string]Member), changed: make(map[string]struct{}),
	}
}

// sit gives a connection a seat, and removes its former one.
func (r *room) sit(conn string, m Member) {
	r.stand(conn)
	r.seats[conn] = m
	if r.conns[m.ID] == nil {
		r.conns[m.ID] = make(map[string]struct{})
	}
	r.conns[m.ID][conn] = struct{}{}
}

// stand removes the seat of a connection, if it has one.
func (r *room) stand(conn string) {
	m, ok := r.seats[conn]
	if !ok {
		return
	}
	delete(r.seats, conn)
	delete(r.conns[m.ID], conn)
	if len(r.conns[m.ID]) == 0 {
		delete(r.conns, m.ID)
	}
}

// member is a member of the room. Connections of one tab with different names are one member.
// All servers take its name from the same connection.
func (r *room) member(id string) (m Member, here bool) {
	var greatest string
	for conn := range r.conns[id] { // a tab has few: see tabConns
		greatest = max(greatest, conn)
	}
	m, here = r.seats[greatest]
	return m, here
}

func (r *room) members() map[string]Member {
	all := make(map[string]Member, len(r.conns))
	for id := range r.conns {
		all[id], _ = r.member(id)
	}
	return all
}

// size is the number of members.
func (r *room) size() int { return len(r.conns) }

// ownSize is the number of members with a connection to this server.
func (r *room) ownSize() int {
	ids := make(map[string]struct{}, len(r.own))
	for conn := range r.own {
		ids[r.seats[conn].ID] = struct{}{}
	}
	return len(ids)
}

// news reports whether tabs need an event for a member, and whether the member is here, and
// records that the event is sent.
func (r *room) news(id string) (m Member, here, changed bool) {
	delete(r.changed, id)
	was, known := r.shown[id]
	if m, here = r.member(id); here {
		r.shown[id] = m
		return m, true, m != was
	}
	delete(r.shown, id)
	return was, false, known
}

// update replaces the seats of other servers. The other servers send the events for them, except
// for members for whom this server will send one.
func (r *room) update(others map[string]Member) {
	affected := make(map[string]struct{})
	for conn, m := range r.seats {
		if now, still := others[conn]; r.own[conn] == nil && (!still || now != m) {
			affected[m.ID] = struct{}{}
			r.stand(conn)
		}
	}
	for conn, m := range others {
		if _, seated := r.seats[conn]; !seated {
			affected[m.ID] = struct{}{}
			r.sit(conn, m)
		}
	}
	for id := range affected {
		if _, ours := r.changed[id]; ours {
			continue
		}
		if m, here := r.member(id); here {
			r.shown[id] = m
		} else {
			delete(r.shown, id)
		}
	}
}

// changedSinceSweep reports whether the members have changed since the last sweep.
func (r *room) changedSinceSweep() bool {
	now := r.members()
	if maps.Equal(now, r.seen) {
		return false
	}
	r.seen = now
	return true
}
