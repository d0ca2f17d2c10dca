package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/routertest"
)

// tab is a client with its own token, like a tab of a browser.
func tab(s *routertest.Server, name string) *routertest.Client {
	return s.Dial(routertest.DialOptions{Token: strings.Repeat(name, 16)[:16]})
}

func enter(t *testing.T, c *routertest.Client, room, name string) Joined {
	t.Helper()
	return routertest.ExpectReply[Joined](c.Request("room.join", Join{Room: room, Name: name}))
}

var sent int

func message(text string) Send {
	sent++
	return Send{ID: fmt.Sprintf("%032x", sent), Text: text}
}

func say(t *testing.T, c *routertest.Client, text string) {
	t.Helper()
	routertest.ExpectReply[Sent](c.Request("chat.send", message(text)))
}

func names(members []Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// each runs a test in its own synctest bubble, where time passes only while all goroutines
// wait.
func each(t *testing.T, f func(*testing.T, *routertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, routertest.New(t, newChat(memory.New()).Router))
	})
}

func TestMessagesReachTheirRoomOnly(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob, eve := tab(s, "ann"), tab(s, "bob"), tab(s, "eve")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "lobby", "Bob")
		enter(t, eve, "garden", "Eve")

		say(t, ann, "  hello \n there ")
		for _, c := range []*routertest.Client{ann, bob} {
			if m := routertest.ExpectEvent[Message](c, "chat.message"); m.Text != "hello \n there" || m.From.Name != "Ann" || m.Room != "lobby" {
				t.Errorf("got %+v", m)
			}
		}
		synctest.Wait()
		for _, f := range eve.Frames() {
			if f.Type == "chat.message" {
				t.Errorf("another room gets %s", f)
			}
		}
	})
}

func TestJoinsAndLeavesAreSent(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		if got := routertest.ExpectEvent[Seat](ann, "member.joined").Name; got != "Ann" {
			t.Errorf("first %q joined", got)
		}
		if got := names(enter(t, bob, "lobby", "Bob").Members); !slices.Equal(got, []string{"Ann", "Bob"}) {
			t.Errorf("Bob finds %v", got)
		}
		if got := routertest.ExpectEvent[Seat](ann, "member.joined").Name; got != "Bob" {
			t.Errorf("then %q joined", got)
		}
		enter(t, bob, "lobby", "Robert")
		if got := routertest.ExpectEvent[Seat](ann, "member.joined").Name; got != "Robert" {
			t.Errorf("Bob is now %q", got)
		}
		enter(t, bob, "garden", "Robert")
		if got := routertest.ExpectEvent[Seat](ann, "member.left").Name; got != "Robert" {
			t.Errorf("%q left", got)
		}
		enter(t, bob, "lobby", "Robert")
		routertest.ExpectEvent[Seat](ann, "member.joined") // else the two changes may be one event, or none
		bob.Vanish()
		routertest.ExpectEvent[Seat](ann, "member.left")
		if got := names(enter(t, ann, "lobby", "Ann").Members); !slices.Equal(got, []string{"Ann"}) {
			t.Errorf("in the end %v are here", got)
		}
	})
}

// A tab that reconnects before the server has noticed the loss of its old connection remains one
// member.
func TestTwoConnectionsOfOneTabAreOneMember(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, old := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		enter(t, old, "lobby", "Bob")
		again := tab(s, "bob")
		if got := names(enter(t, again, "lobby", "Bob").Members); !slices.Equal(got, []string{"Ann", "Bob"}) {
			t.Errorf("after reconnecting %v are here", got)
		}
		synctest.Wait()
		ann.Frames()
		old.Vanish()
		synctest.Wait()
		if f := ann.Frames(); len(f) > 0 {
			t.Errorf("the end of the old connection sends %s", f)
		}
		again.Vanish()
		routertest.ExpectEvent[Seat](ann, "member.left")
	})
}

func TestInputIsBounded(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		c := tab(s, "ann")
		c.Request("chat.send", message("too early")).ExpectError(errors.FailedPrecondition)
		for _, q := range []Join{
			{Room: "lobby", Name: ""},
			{Room: "lobby", Name: " \u200b\u202e\t"},
			{Room: "lobby", Name: strings.Repeat("x", 25)},
			{Room: "", Name: "Ann"},
			{Room: "two words", Name: "Ann"},
			{Room: "Lobby", Name: "Ann"},
			{Room: strings.Repeat("x", 25), Name: "Ann"},
		} {
			c.Request("room.join", q).ExpectError(errors.InvalidArgument)
			time.Sleep(perTab.Per)
		}
		if got := names(enter(t, c, "lobby", "Ann\u202e \n of  Avonlea").Members); got[0] != "Ann of Avonlea" {
			t.Errorf("the name became %q", got)
		}
		for _, m := range []Send{
			{ID: strings.Repeat("0", 32), Text: ""},
			{ID: strings.Repeat("0", 32), Text: " \n "},
			{ID: strings.Repeat("0", 32), Text: strings.Repeat("x", 501)},
			{ID: "1", Text: "hi"},
			{ID: strings.Repeat("x", 32), Text: "hi"},
		} {
			c.Request("chat.send", m).ExpectError(errors.InvalidArgument)
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann := tab(s, "ann")
		enter(t, ann, "lobby", "Ann")
		for i := range maxHistory + 10 {
			time.Sleep(perTab.Per)
			say(t, ann, fmt.Sprint(i))
		}
		got := enter(t, tab(s, "bob"), "lobby", "Bob").Messages
		if len(got) != maxHistory || got[0].Text != "10" || got[maxHistory-1].Text != fmt.Sprint(maxHistory+9) {
			t.Errorf("%d messages, from %q to %q", len(got), got[0].Text, got[len(got)-1].Text)
		}
	})
}

// The lobbies and the rooms with members exist; a room ends with its last member.
func TestRoomsEndWithTheirLastMember(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, bob, "kept", "Bob")
		enter(t, ann, "garden", "Ann")
		rooms := enter(t, ann, "lobby", "Ann").Rooms
		slices.SortFunc(rooms, func(a, b RoomSize) int { return strings.Compare(a.Name, b.Name) })
		if want := []RoomSize{{"help", 0}, {"kept", 1}, {"lobby", 1}, {"random", 0}}; !slices.Equal(rooms, want) {
			t.Errorf("the rooms are %v, want %v", rooms, want)
		}
		for !slices.Contains(routertest.ExpectEvent[RoomsChanged](bob, "rooms.changed").Removed, "garden") {
		}
	})
}

func TestRoomsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		for i := range maxRooms - len(lobbies) {
			time.Sleep(time.Second) // within the limit of the address
			enter(t, tab(s, fmt.Sprintf("tab-%012d", i)), fmt.Sprint("room", i), "Member")
		}
		late := tab(s, "late")
		late.Request("room.join", Join{Room: "another", Name: "Late"}).ExpectError(errors.FailedPrecondition)
		enter(t, late, "room0", "Late")
		enter(t, late, "lobby", "Late")
	})
}

// another is a second server on the same backend, with one member in the lobby for
// each of its connections.
func another(t *testing.T, b adapters.Backend, id string, names map[string]string) {
	t.Helper()
	for conn, name := range names {
		data, _ := json.Marshal(occupant{Member{ID: id, Name: name}, "another"})
		if err := b.Presence.Join(t.Context(), topicOf("lobby"), pubsub.Member{ID: conn, User: id, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
}

func sharedInMemory() adapters.Backend {
	b := memory.New()
	b.Shared = true
	return b
}

// The members of a killed server leave without an event; the other servers detect this and
// send events to their tabs.
func TestSweepFindsMembersOfKilledServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := sharedInMemory()
		chat := newChat(backend)
		s := routertest.New(t, chat.Router)
		ann := tab(s, "ann")
		enter(t, ann, "lobby", "Ann")
		another(t, backend, "b", map[string]string{"conn": "Bob"})
		chat.rooms.sweep(t.Context())
		if got := names(routertest.ExpectEvent[Room](ann, "room.state").Members); !slices.Equal(got, []string{"Ann", "Bob"}) {
			t.Errorf("here are %v", got)
		}
		backend.Presence.Leave(topicOf("lobby"), "conn")
		chat.rooms.sweep(t.Context())
		if got := names(routertest.ExpectEvent[Room](ann, "room.state").Members); !slices.Equal(got, []string{"Ann"}) {
			t.Errorf("here are %v", got)
		}
		synctest.Wait()
		ann.Frames()
		chat.rooms.sweep(t.Context()) // nothing has changed
		synctest.Wait()
		if f := ann.Frames(); len(f) > 0 {
			t.Errorf("received %s", f)
		}
	})
}

// A tab that has connected to another server when its old connection ends has not left.
func TestMemberOnAnotherServerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := sharedInMemory()
		s := routertest.New(t, newChat(backend).Router)
		ann, old := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		bob := enter(t, old, "lobby", "Bob").You
		heard(ann, "")
		another(t, backend, bob, map[string]string{"conn": "Bob"})
		old.Vanish()
		if got := heard(ann, "member.left"); len(got) > 0 {
			t.Errorf("Ann gets the event that %v left", got)
		}
		if got := names(enter(t, ann, "lobby", "Ann").Members); !slices.Equal(got, []string{"Ann", "Bob"}) {
			t.Errorf("here are %v", got)
		}
	})
}

// The sizes of rooms count the members on all servers.
func TestSizesCountAllServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := sharedInMemory()
		one, two := newChat(backend), newChat(backend)
		s1, s2 := routertest.New(t, one.Router), routertest.New(t, two.Router)
		ann, bob := tab(s1, "ann"), tab(s2, "bob")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "garden", "Bob")
		time.Sleep(2 * sizesEvery)
		heard(ann, "")
		one.rooms.sweep(t.Context())
		if got := routertest.ExpectEvent[RoomsChanged](ann, "rooms.changed").Rooms; !slices.Equal(got, []RoomSize{{"garden", 1}}) {
			t.Errorf("the sizes are %v", got)
		}
		enter(t, bob, "lobby", "Bob")
		time.Sleep(2 * sizesEvery)
		heard(ann, "") // the events of the other server
		one.rooms.sweep(t.Context())
		if got := routertest.ExpectEvent[RoomsChanged](ann, "rooms.changed").Removed; !slices.Equal(got, []string{"garden"}) {
			t.Errorf("removed are %v", got)
		}
		if got := names(enter(t, ann, "lobby", "Ann").Members); !slices.Equal(got, []string{"Ann", "Bob"}) {
			t.Errorf("here are %v", got)
		}
	})
}

func TestRoomsAreNotOverfilled(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		for i := range maxMembers {
			time.Sleep(time.Second) // within the limit of the address
			enter(t, tab(s, fmt.Sprintf("tab-%012d", i)), "lobby", fmt.Sprint("Member ", i))
		}
		tab(s, "late").Request("room.join", Join{Room: "lobby", Name: "Late"}).ExpectError(errors.FailedPrecondition)
	})
}

// newChat is a chat with one store for all limits, and without moderators.
func newChat(b adapters.Backend) *Chat { return NewChat(b, b.Limits, "") }
