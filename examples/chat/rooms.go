package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// What the chat keeps is bounded in every direction. Servers that share one Redis
// do not wait for each other: together they may go a little over.
const (
	maxRooms   = 50  // with somebody in them
	maxMembers = 100 // of one room
	maxHistory = 50  // messages of one room
)

// lobbies are the rooms that are always there.
var lobbies = []string{"help", "lobby", "random"}

// roomsTopic is where every tab hears how many are in which room.
const roomsTopic = "rooms"

func isLobby(room string) bool { return slices.Contains(lobbies, room) }

func topicOf(room string) string { return "room:" + room }

// seatsTopic is where everybody's presence is kept: a member's ID is that of the
// connection, its User the tab, its Data the [Seat].
const seatsTopic = "seats"

// storeTime bounds how long the end of a connection waits for the backend.
const storeTime = 2 * time.Second

// Rooms are the rooms with their members and latest messages. Who is where is
// kept in the backend's Presence alone, so that it is right across servers.
type Rooms struct {
	router  *router.Router
	backend Backend

	// mu is held while something changes and while that is told, so that
	// everybody is told of all changes of this server in the order in which they
	// happened.
	mu   sync.Mutex
	here map[*router.Conn]Seat // the seats of this server
	seen plan                  // at the last sweep
}

func newRooms(r *router.Router, b Backend) *Rooms {
	return &Rooms{router: r, backend: b, here: make(map[*router.Conn]Seat)}
}

// Join moves a connection to a seat and returns what there is to see from it.
func (rs *Rooms) Join(c *router.Context, to Seat) (Joined, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	before, err := rs.plan(c)
	if err != nil {
		return Joined{}, err
	}
	known, here := before[to.Room][to.ID]
	switch {
	case len(before[to.Room]) == 0 && before.rooms() >= maxRooms && !isLobby(to.Room):
		return Joined{}, errors.FailedPrecondition.New("there are as many rooms as there may be: choose one of them")
	case !here && len(before[to.Room]) >= maxMembers:
		return Joined{}, errors.FailedPrecondition.Errorf("room %q is full", to.Room)
	}
	// Subscribing fails once the connection has ended. So either it fails here,
	// or Leave is still to come for this connection.
	if err := errors.Join(c.Subscribe(roomsTopic), c.Subscribe(topicOf(to.Room))); err != nil {
		return Joined{}, err
	}
	from, moved := rs.here[c.Conn()]
	if err := rs.sit(c, to); err != nil {
		return Joined{}, err
	}
	moved = moved && from.Room != to.Room
	if moved {
		_ = c.Unsubscribe(topicOf(from.Room))
	}

	after, err := rs.plan(c)
	if err != nil {
		return Joined{}, err
	}
	history, err := rs.backend.History.Latest(c, to.Room)
	if err != nil {
		return Joined{}, err
	}
	if moved {
		rs.tellGone(after, from)
	}
	if known != to.Member {
		rs.tell(topicOf(to.Room), "member.joined", to)
	}
	if !here {
		rs.tell(roomsTopic, "room.changed", after.size(to.Room))
	}
	return Joined{
		You: to.ID, Room: to.Room, Messages: history,
		Members: after.members(to.Room), Rooms: after.sizes(),
	}, nil
}

// sit keeps a connection's seat, instead of the one it had.
func (rs *Rooms) sit(c *router.Context, to Seat) error {
	data, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := rs.backend.Presence.Join(c, seatsTopic, pubsub.Member{ID: c.ConnID(), User: to.ID, Data: data}); err != nil {
		return errors.Unavailable.Wrap(err, "the room cannot be entered just now")
	}
	seat.Set(c, to)
	rs.here[c.Conn()] = to
	return nil
}

// Leave gives up the connection's seat, if it has one.
func (rs *Rooms) Leave(c *router.Conn, quietly bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	from, ok := rs.here[c]
	if !ok {
		return
	}
	delete(rs.here, c)
	rs.backend.Presence.Leave(seatsTopic, c.ID())
	if quietly {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	after, err := rs.plan(ctx)
	if err != nil {
		return // the other servers find out at their next sweep
	}
	rs.tellGone(after, from)
}

// Say adds a message to its room and shows it to everybody there.
func (rs *Rooms) Say(ctx context.Context, m Message) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if err := rs.backend.History.Add(ctx, m); err != nil {
		return err
	}
	if err := rs.router.Publish(ctx, topicOf(m.Room), "chat.message", m); err != nil {
		return errors.Unavailable.Wrap(err, "the message could not be delivered")
	}
	return nil
}

// tellGone tells who left a seat, unless another connection of the same tab
// stands for the member: the tab has reconnected and its old connection was not yet
// known to be dead.
func (rs *Rooms) tellGone(after plan, from Seat) {
	if _, still := after[from.Room][from.ID]; still {
		return
	}
	rs.tell(topicOf(from.Room), "member.left", from)
	if len(after[from.Room]) == 0 && !isLobby(from.Room) {
		rs.tell(roomsTopic, "room.removed", RoomSize{Name: from.Room})
		return
	}
	rs.tell(roomsTopic, "room.changed", after.size(from.Room))
}

// tell publishes an event. Who misses one sees the right picture again with the
// next join or sweep, so a failure is no reason to fail what has already happened.
func (rs *Rooms) tell(topic, typ string, payload any) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if err := rs.router.Publish(ctx, topic, typ, payload); err != nil {
		slog.Error("chat: publishing failed", "type", typ, "error", err)
	}
}
