package server

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// All state of the chat is bounded. Servers that share one Redis do not wait for each other:
// together they may exceed these numbers a little.
const (
	maxRooms   = 50  // with a member in them
	maxMembers = 100 // of one room
)

// lobbies are the rooms that always exist.
var lobbies = []string{"help", "lobby", "random"}

// roomsTopic is the topic with the sizes of the rooms, for all tabs.
const roomsTopic = "rooms"

func isLobby(room string) bool { return slices.Contains(lobbies, room) }

// topicOf is the topic of the events of a room's members, and of their presence.
func topicOf(room string) string { return "room:" + room }

// storeTime bounds how long a request may wait for the backend.
const storeTime = 2 * time.Second

// Rooms are the rooms of this server's tabs with all their members. No step depends on the number
// of connected tabs: a join or a leave changes one entry, and its event goes to the members of
// one room. The sizes of rooms, which go to all tabs, are sent together, once in sizesEvery.
type Rooms struct {
	router  *router.Router
	events  events
	backend adapters.Backend
	self    string // names this server

	mu        sync.Mutex // guards the fields below; it is not held during I/O
	here      map[*router.Conn]Seat
	rooms     map[string]*room
	elsewhere map[string]int      // the members of the other rooms, at the last sweep
	resized   map[string]struct{} // the rooms whose size is to be sent
	sizing    bool                // a goroutine will send them
}

func newRooms(r *router.Router, b adapters.Backend) *Rooms {
	return &Rooms{
		router: r, events: declareEvents(r), backend: b, self: rand.Text(),
		here: make(map[*router.Conn]Seat), rooms: make(map[string]*room),
		elsewhere: make(map[string]int), resized: make(map[string]struct{}),
	}
}

// Join moves a connection to a seat and returns the content of its room, with the messages behind
// a position, or the latest ones. After an error the connection is in its former room; or in no
// room, if it has lost its seat.
func (rs *Rooms) Join(c *router.Context, to Seat, after string) (Joined, error) {
	// The move is completed also if the client leaves before that.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c), storeTime)
	defer cancel()
	conn, topic := c.Conn(), topicOf(to.Room)
	if err := rs.admits(to); err != nil {
		return Joined{}, err
	}
	from := seatOf(c)
	moves := from.Room != to.Room
	for _, t := range []string{roomsTopic, topic} {
		if err := conn.Subscribe(ctx, t); err != nil {
			return Joined{}, err
		}
	}
	history, err := readHistory(ctx, rs.router, to.Room, after)
	if err == nil && moves { // what is sent since then comes as events
		err = conn.SubscribeFrom(ctx, messagesOf(to.Room), history.Pos)
		if errors.CodeOf(err) == errors.FailedPrecondition { // the client has resumed the topic
			err = nil
		}
	}
	if err == nil {
		err = conn.Join(ctx, topic, occupant{to.Member, rs.self})
		if err != nil && !moves { // the presence has lost the seat
			rs.Leave(conn, false)
			seat.Set(c.Identity, Seat{})
			moves = true
		}
	}
	if err == nil {
		err = rs.sit(conn, to)
	}
	if err != nil {
		if moves {
			unsubscribe(conn, to.Room)
		}
		return Joined{}, err
	}
	seat.Set(c.Identity, to)
	if moves && from.Room != "" {
		unsubscribe(conn, from.Room)
	}
	if conn.Context().Err() != nil { // Leave may have been called before there was a seat
		rs.Leave(conn, false)
		return Joined{}, router.ErrClosed
	}
	_ = rs.readOthers(ctx, to.Room) // after an error, the next sweep reads them
	return rs.view(to, history), nil
}

// seatOf is the seat of the connection; none if a moderator has removed it from the room.
func seatOf(c *router.Context) Seat {
	at, _ := seat.Get(c.Identity)
	if !c.Conn().IsSubscribed(messagesOf(at.Room)) {
		return Seat{}
	}
	return at
}

func unsubscribe(conn *router.Conn, room string) {
	conn.Unsubscribe(topicOf(room))
	conn.Unsubscribe(messagesOf(room))
}

// Leave removes the connection from its seat, if it has one.
func (rs *Rooms) Leave(c *router.Conn, quietly bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.stand(c, quietly)
}

// Say sends a message to the members of its room and adds it to the history. A message that is
// sent again is not added again.
func (rs *Rooms) Say(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	once := router.PublishOptions{ID: m.From.ID + "/" + m.ID}
	if err := rs.events.message.Publish(ctx, messagesOf(m.Room), m, once); err != nil {
		return errors.Unavailable.Wrap(err, "the message could not be delivered")
	}
	return nil
}

// admits returns an error if there may not be another member.
func (rs *Rooms) admits(to Seat) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.admitsLocked(to)
}

func (rs *Rooms) admitsLocked(to Seat) error {
	size := rs.size(to.Room).Members
	if r := rs.rooms[to.Room]; r != nil {
		if _, here := r.member(to.ID); here {
			return nil
		}
	}
	switch {
	case size == 0 && !isLobby(to.Room) && len(rs.sizes()) >= maxRooms:
		return errors.FailedPrecondition.New("no more rooms can be opened: choose an existing one")
	case size >= maxMembers:
		return errors.FailedPrecondition.Errorf("room %q is full", to.Room)
	}
	return nil
}

// sit gives a connection its seat, and removes its former one, if the room is not full.
func (rs *Rooms) sit(c *router.Conn, to Seat) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if err := rs.admitsLocked(to); err != nil {
		return err
	}
	r := rs.rooms[to.Room]
	if r == nil {
		r = newRoom(to.Room)
		rs.rooms[to.Room] = r
	}
	if rs.here[c].Room != to.Room {
		rs.stand(c, false)
		rs.resize(to.Room)
	}
	rs.here[c], r.own[c.ID()] = to, c
	r.sit(c.ID(), to.Member)
	rs.tell(r, to.ID)
	return nil
}

// stand removes the seat of a connection, if it has one. rs.mu is held.
func (rs *Rooms) stand(c *router.Conn, quietly bool) {
	from, seated := rs.here[c]
	if !seated {
		return
	}
	r := rs.rooms[from.Room]
	delete(rs.here, c)
	delete(r.own, c.ID())
	r.stand(c.ID())
	if !quietly {
		rs.tell(r, from.ID)
		rs.resize(from.Room)
	}
}

// size is the number of members of a room that are known to this server. rs.mu is held.
func (rs *Rooms) size(name string) RoomSize {
	if r := rs.rooms[name]; r != nil {
		return RoomSize{Name: name, Members: r.size()}
	}
	return RoomSize{Name: name, Members: rs.elsewhere[name]}
}

// sizes has the sizes of the lobbies and of all rooms with members. rs.mu is held.
func (rs *Rooms) sizes() (sizes []RoomSize) {
	names := make(map[string]struct{})
	for name := range rs.rooms {
		names[name] = struct{}{}
	}
	for name := range rs.elsewhere {
		names[name] = struct{}{}
	}
	for _, name := range lobbies {
		names[name] = struct{}{}
	}
	for name := range names {
		if s := rs.size(name); s.Members > 0 || isLobby(name) {
			sizes = append(sizes, s)
		}
	}
	return sizes
}

// view is the content of the room of a seat, for its tab.
func (rs *Rooms) view(from Seat, history History) Joined {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	joined := Joined{You: from.ID, Room: from.Room, History: history, Rooms: rs.sizes()}
	if r := rs.rooms[from.Room]; r != nil {
		joined.Members = slices.Collect(maps.Values(r.members()))
	}
	return joined
}
