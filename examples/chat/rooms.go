package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
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

// storeTime bounds how long anything that happens in a room may take, waiting for
// what happens before it included.
const storeTime = 2 * time.Second

// Rooms are the rooms with their members and latest messages. Who is where is
// kept in the backend's Presence alone, so that it is right across servers.
type Rooms struct {
	router  *router.Router
	backend Backend

	// turn is held while something changes and while that is told, so that
	// everybody is told of all changes of this server in the order in which they
	// happened. Whoever holds it may wait for the backend; unlike a Mutex, it lets
	// those go that have waited for too long.
	turn chan struct{}
	here map[*router.Conn]Seat // the seats of this server
	seen plan                  // at the last sweep
}

func newRooms(r *router.Router, b Backend) *Rooms {
	return &Rooms{router: r, backend: b, turn: make(chan struct{}, 1), here: make(map[*router.Conn]Seat)}
}

// take waits for its turn, which done ends. Waiting counts against ctx's deadline
// like the work itself: while the backend stalls, the line stays short.
func (rs *Rooms) take(ctx context.Context) error {
	select {
	case rs.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.Unavailable.Wrap(ctx.Err(), "the rooms are slow to answer just now")
	}
}

func (rs *Rooms) done() { <-rs.turn }

// Join moves a connection to a seat and returns what there is to see from it. When
// it fails, the connection is where it was; or in no room, if its seat is lost.
func (rs *Rooms) Join(c *router.Context, to Seat) (Joined, error) {
	// What has begun is finished, though the client leaves meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c), storeTime)
	defer cancel()
	if err := rs.take(ctx); err != nil {
		return Joined{}, err
	}
	defer rs.done()
	history, err := rs.backend.History.Latest(ctx, to.Room)
	if err != nil {
		return Joined{}, err
	}
	seats, err := rs.seats(ctx)
	if err != nil {
		return Joined{}, err
	}
	before := planOf(seats)
	known, here := before[to.Room][to.ID]
	switch {
	case len(before[to.Room]) == 0 && before.rooms() >= maxRooms && !isLobby(to.Room):
		return Joined{}, errors.FailedPrecondition.New("there are as many rooms as there may be: choose one of them")
	case !here && len(before[to.Room]) >= maxMembers:
		return Joined{}, errors.FailedPrecondition.Errorf("room %q is full", to.Room)
	}
	// Subscribing fails once the connection has ended. So either it fails here,
	// or Leave is still to come for this connection. The room comes last: nobody
	// hears it who then does not get in.
	for _, topic := range []string{roomsTopic, topicOf(to.Room)} {
		if err := c.Subscribe(topic); err != nil {
			return Joined{}, err
		}
	}
	from, seated := rs.here[c.Conn()]
	if err := rs.sit(ctx, c, to); err != nil {
		_ = c.Unsubscribe(topicOf(to.Room))
		if seated { // Presence has taken the member out
			rs.stand(c, from)
			delete(seats, c.ConnID())
			rs.tellGone(ctx, planOf(seats), from)
		}
		return Joined{}, err
	}
	moved := seated && from.Room != to.Room
	if moved {
		_ = c.Unsubscribe(topicOf(from.Room))
	}

	seats[c.ConnID()] = to
	after := planOf(seats)
	if moved {
		rs.tellGone(ctx, after, from)
	}
	if known != to.Member {
		rs.tell(ctx, topicOf(to.Room), "member.joined", to)
	}
	if !here {
		rs.tell(ctx, roomsTopic, "room.changed", after.size(to.Room))
	}
	return Joined{
		You: to.ID, Room: to.Room, Messages: history,
		Members: after.members(to.Room), Rooms: after.sizes(),
	}, nil
}

// sit keeps a connection's seat, instead of the one it had.
func (rs *Rooms) sit(ctx context.Context, c *router.Context, to Seat) error {
	data, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := rs.backend.Presence.Join(ctx, seatsTopic, pubsub.Member{ID: c.ConnID(), User: to.ID, Data: data}); err != nil {
		return errors.Unavailable.Wrap(err, "the room cannot be entered just now")
	}
	seat.Set(c, to)
	rs.here[c.Conn()] = to
	return nil
}

// stand forgets a connection's seat, which Presence has already.
func (rs *Rooms) stand(c *router.Context, from Seat) {
	_ = c.Unsubscribe(topicOf(from.Room))
	seat.Set(c, Seat{})
	delete(rs.here, c.Conn())
}

// Leave gives up the connection's seat, if it has one.
func (rs *Rooms) Leave(c *router.Conn, quietly bool) {
	_ = rs.take(context.Background()) // the seat must not stay: no limit but that of those before
	from, ok := rs.here[c]
	if ok {
		delete(rs.here, c)
		rs.backend.Presence.Leave(seatsTopic, c.ID())
	}
	rs.done()
	if !ok || quietly {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if rs.take(ctx) != nil {
		return // all servers find out at their next sweep
	}
	defer rs.done()
	seats, err := rs.seats(ctx)
	if err != nil {
		return // the same
	}
	rs.tellGone(ctx, planOf(seats), from)
}

// Say adds a message to its room and shows it to everybody there.
func (rs *Rooms) Say(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := rs.take(ctx); err != nil {
		return err
	}
	defer rs.done()
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
// known to be dead. That may stand under another name.
func (rs *Rooms) tellGone(ctx context.Context, after plan, from Seat) {
	if m, still := after[from.Room][from.ID]; still {
		if m != from.Member {
			rs.tell(ctx, topicOf(from.Room), "member.joined", Seat{Room: from.Room, Member: m})
		}
		return
	}
	rs.tell(ctx, topicOf(from.Room), "member.left", from)
	if len(after[from.Room]) == 0 && !isLobby(from.Room) {
		rs.tell(ctx, roomsTopic, "room.removed", RoomSize{Name: from.Room})
		return
	}
	rs.tell(ctx, roomsTopic, "room.changed", after.size(from.Room))
}

// tell publishes an event. Who misses one sees the right picture again with the
// next join or sweep, so a failure is no reason to fail what has already happened.
func (rs *Rooms) tell(ctx context.Context, topic, typ string, payload any) {
	if err := rs.router.Publish(ctx, topic, typ, payload); err != nil {
		slog.Error("chat: publishing failed", "type", typ, "error", err)
	}
}
