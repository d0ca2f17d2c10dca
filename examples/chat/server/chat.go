package server

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
)

// Messages from clients. The tags bound every field; the answer to anything else is
// INVALID_ARGUMENT, and it does not reach a handler.
type (
	Join struct {
		Room string `json:"room" validate:"required,max=24,alphanumunicode,lowercase"`
		Name string `json:"name" validate:"required,max=24"`
		// After is the position of the last message that the tab has of this room, after a lost
		// connection. Without it the answer has the latest messages.
		After string `json:"after,omitzero" validate:"max=27"`
	}
	// Send has an id that the client chooses. After a lost connection the client uses it
	// to find out whether the message has arrived.
	Send struct {
		ID   string `json:"id" validate:"required,hexadecimal,len=32"`
		Text string `json:"text" validate:"required,max=500"`
	}
)

// Messages to clients.
type (
	Joined struct {
		You     string   `json:"you"` // the member's own id
		Room    string   `json:"room"`
		Members []Member `json:"members"`
		History
		Rooms     []RoomSize `json:"rooms"`
		Moderator bool       `json:"moderator,omitzero"`
	}
	Sent struct {
		At time.Time `json:"at"`
	}
	Member struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	// Seat is a member in a room.
	Seat struct {
		Room string `json:"room"`
		Member
	}
	Message struct {
		ID   string    `json:"id"`
		Room string    `json:"room"`
		From Member    `json:"from"`
		Text string    `json:"text"`
		At   time.Time `json:"at"`
		// Pos is the position of a message of the history. An event has it in its meta.
		Pos string `json:"pos,omitzero"`
	}
	RoomSize struct {
		Name    string `json:"name"`
		Members int    `json:"members"`
	}
)

// events are the events that the server sends. A send with another payload type does not compile.
type events struct {
	message      router.Event[Message]
	joined, left router.Event[Seat]
	sizes        router.Event[RoomsChanged]
	state        router.Event[Room]
}

func declareEvents(r *router.Router) events {
	return events{
		message: router.Declare[Message](r, "chat.message"),
		joined:  router.Declare[Seat](r, "member.joined", router.EventOptions{Doc: "a member joined the room, or has a new name"}),
		left:    router.Declare[Seat](r, "member.left"),
		sizes:   router.Declare[RoomsChanged](r, "rooms.changed", router.EventOptions{Doc: "sizes of rooms, to all tabs"}),
		state:   router.Declare[Room](r, "room.state", router.EventOptions{Doc: "all members of the room, where events may have been missed"}),
	}
}

// seat is the member and the room of a connection.
var seat = ingress.NewKey[Seat]()

// Chat is the server. It is the http.Handler of its router.
type Chat struct {
	*router.Router
	rooms  *Rooms
	limits Limits
}

// NewChat connects the parts of the chat. Tabs with the key are moderators; empty: there are none.
func NewChat(b adapters.Backend, messages limit.Store, moderatorKey string) *Chat {
	chat := &Chat{limits: newLimits(messages, b.Limits)}
	chat.Router = router.New(router.Options{
		Gate:         chat.limits.gate,
		Authenticate: identify(moderatorKey),
		OnClose:      chat.closed,
		Backend:      b,
		Addressing:   router.AddressingOptions{Enabled: moderatorKey != ""}, // moderators reach members on all servers
	})
	declareHistories(chat.Router)
	chat.rooms = newRooms(chat.Router, b)
	chat.Use(chat.limits.Middleware()...)
	router.RPC(chat.Router, "room.join", chat.join, router.RouteOptions{Reply: "room.joined"})
	router.RPC(chat.Router, "chat.send", chat.send, router.RouteOptions{Reply: "chat.sent"})
	chat.moderated()
	return chat
}

// join moves the tab from its room into another one. Joining the same room again changes the
// name.
func (chat *Chat) join(c *router.Context, q Join) (Joined, error) {
	name := visible(q.Name)
	if name == "" {
		return Joined{}, errors.InvalidArgument.New("a name needs at least one visible character")
	}
	joined, err := chat.rooms.Join(c, Seat{Room: q.Room, Member: Member{ID: c.Identity.User, Name: name}}, q.After)
	joined.Moderator = slices.Contains(c.Identity.Roles, moderator)
	return joined, err
}

// send sends a message to all tabs in the room, including the sender.
func (chat *Chat) send(c *router.Context, m Send) (Sent, error) {
	from := seatOf(c)
	if from.Room == "" {
		return Sent{}, errors.FailedPrecondition.New("join a room first")
	}
	text := strings.TrimSpace(m.Text)
	if text == "" {
		return Sent{}, errors.InvalidArgument.New("the message is empty")
	}
	now := time.Now().UTC()
	err := chat.rooms.Say(c, Message{ID: m.ID, Room: from.Room, From: from.Member, Text: text, At: now})
	return Sent{At: now}, err
}

// closed removes a tab from its room when its connection has ended.
func (chat *Chat) closed(c *router.Conn, why router.CloseInfo) {
	// While the server shuts down, members reconnect and do not leave.
	quietly := why.ByServer && why.Code == errors.CloseGoingAway
	chat.rooms.Leave(c, quietly)
}

// visible returns the visible characters of a name: with single spaces, and without characters
// of no width or that change the direction of the text.
func visible(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
