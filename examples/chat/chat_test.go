package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/routertest"
)

// tab is a client with a token of its own, as a browser's tab has it.
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

// each runs a test in a bubble of its own, where time passes only when everybody
// waits.
func each(t *testing.T, f func(*testing.T, *routertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, routertest.New(t, NewChat().Router))
	})
}

func TestMessagesReachTheRoomAndNobodyElse(t *testing.T) {
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

func TestComingAndGoing(t *testing.T) {
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
		bob.Vanish()
		routertest.ExpectEvent[Seat](ann, "member.left")
		if got := names(enter(t, ann, "lobby", "Ann").Members); !slices.Equal(got, []string{"Ann"}) {
			t.Errorf("in the end %v are here", got)
		}
	})
}

// A tab that reconnects before its old connection is known to be dead is one
// member all the time.
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
			t.Errorf("the end of the old connection tells %s", f)
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

// Empty rooms make way for new ones, the longest empty first; rooms with people
// and the lobbies stay.
func TestRoomsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *routertest.Server) {
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, bob, "kept", "Bob")
		var rooms []RoomSize
		for i := range maxRooms + 5 {
			time.Sleep(perTab.Per)
			rooms = enter(t, ann, fmt.Sprint("room", i), "Ann").Rooms
		}
		if len(rooms) != maxRooms {
			t.Errorf("there are %d rooms", len(rooms))
		}
		has := func(name string) bool {
			return slices.ContainsFunc(rooms, func(r RoomSize) bool { return r.Name == name })
		}
		for _, name := range append(lobbies, "kept", fmt.Sprint("room", maxRooms+4)) {
			if !has(name) {
				t.Errorf("room %s is gone", name)
			}
		}
		if has("room0") {
			t.Error("the room that was empty for longest is still there")
		}
		routertest.ExpectEvent[RoomSize](bob, "room.removed")
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
