package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// What the chat keeps is bounded in every direction.
const (
	maxRooms   = 50
	maxMembers = 100 // of one room
	maxHistory = 50  // messages of one room
)

// lobbies are the rooms that are always there.
var lobbies = []string{"help", "lobby", "random"}

// roomsTopic is where every tab hears how many are in which room.
const roomsTopic = "rooms"

func topicOf(room string) string { return "room:" + room }

// Rooms are the rooms with their members and latest messages.
type Rooms struct {
	router *router.Router

	// mu is held while something changes and while that is told, so that
	// everybody is told of all changes in the order in which they happened.
	mu     sync.Mutex
	byName map[string]*room
}

type room struct {
	members map[string]*presence // by member id
	history []Message
	quiet   time.Time // since when nobody is here
}

// presence is a member with the number of connections that stand for it: two,
// while a tab has reconnected and its old connection is not yet known to be dead.
type presence struct {
	Member
	connections int
}

func newRooms(r *router.Router) *Rooms {
	rooms := &Rooms{router: r, byName: make(map[string]*room)}
	for _, name := range lobbies {
		rooms.byName[name] = newRoom()
	}
	return rooms
}

func newRoom() *room { return &room{members: make(map[string]*presence), quiet: time.Now()} }

// Join moves a connection to a seat and returns what there is to see from it.
func (rs *Rooms) Join(c *router.Context, to Seat) (Joined, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, err := rs.open(to.Room)
	if err != nil {
		return Joined{}, err
	}
	p, here := r.members[to.ID]
	if !here && len(r.members) >= maxMembers {
		return Joined{}, errors.FailedPrecondition.Errorf("room %q is full", to.Room)
	}
	// Subscribing fails once the connection has ended. So either it fails here,
	// or Leave is still to come for this connection.
	if err := errors.Join(c.Subscribe(roomsTopic), c.Subscribe(topicOf(to.Room))); err != nil {
		return Joined{}, err
	}

	if !here {
		p = new(presence)
		r.members[to.ID] = p
	}
	renamed := p.Name != to.Name
	p.Member = to.Member
	p.connections++
	if from, ok := seat.Get(c); ok {
		if from.Room != to.Room {
			_ = c.Unsubscribe(topicOf(from.Room))
		}
		rs.vacate(from, false)
	}
	seat.Set(c, to)

	if renamed {
		rs.tell(topicOf(to.Room), "member.joined", to)
	}
	if !here {
		rs.tell(roomsTopic, "room.changed", r.size(to.Room))
	}
	return Joined{You: to.ID, Room: to.Room, Members: r.list(), Messages: r.history, Rooms: rs.sizes()}, nil
}

// Leave gives up the connection's seat, if it has one.
func (rs *Rooms) Leave(c *router.Conn, quietly bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if from, ok := seat.Get(c); ok {
		rs.vacate(from, quietly)
	}
}

// Say adds a message to its room and shows it to everybody there.
func (rs *Rooms) Say(m Message) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.byName[m.Room]
	if !ok {
		return // its sender has gone, and the room after that
	}
	if len(r.history) == maxHistory {
		r.history = slices.Clone(r.history[1:]) // answers on their way still hold the old one
	}
	r.history = append(r.history, m)
	rs.tell(topicOf(m.Room), "chat.message", m)
}

// vacate takes one connection from a member, and the member from the room if it
// was the last.
func (rs *Rooms) vacate(from Seat, quietly bool) {
	r := rs.byName[from.Room]
	p := r.members[from.ID]
	if p.connections--; p.connections > 0 {
		return
	}
	delete(r.members, from.ID)
	r.quiet = time.Now()
	if !quietly {
		rs.tell(topicOf(from.Room), "member.left", from)
		rs.tell(roomsTopic, "room.changed", r.size(from.Room))
	}
}

// open returns a room, and makes it if there is none of that name. Where there
// are too many, the one that has been empty for longest makes way.
func (rs *Rooms) open(name string) (*room, error) {
	if r, ok := rs.byName[name]; ok {
		return r, nil
	}
	if len(rs.byName) >= maxRooms {
		oldest := ""
		for n, r := range rs.byName {
			if len(r.members) == 0 && !slices.Contains(lobbies, n) && (oldest == "" || r.quiet.Before(rs.byName[oldest].quiet)) {
				oldest = n
			}
		}
		if oldest == "" {
			return nil, errors.FailedPrecondition.New("there are as many rooms as there may be: choose one of them")
		}
		delete(rs.byName, oldest)
		rs.tell(roomsTopic, "room.removed", RoomSize{Name: oldest})
	}
	r := newRoom()
	rs.byName[name] = r
	return r, nil
}

// tell publishes an event. Who misses one sees the right picture again with the
// next join, so a failure is no reason to fail what has already happened.
func (rs *Rooms) tell(topic, typ string, payload any) {
	if err := rs.router.Publish(context.Background(), topic, typ, payload); err != nil {
		slog.Error("chat: publishing failed", "type", typ, "error", err)
	}
}

func (rs *Rooms) sizes() []RoomSize {
	sizes := make([]RoomSize, 0, len(rs.byName))
	for name, r := range rs.byName {
		sizes = append(sizes, r.size(name))
	}
	return sizes
}

func (r *room) size(name string) RoomSize { return RoomSize{Name: name, Members: len(r.members)} }

func (r *room) list() []Member {
	list := make([]Member, 0, len(r.members))
	for _, p := range r.members {
		list = append(list, p.Member)
	}
	return list
}
