package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/exampletest"
	"github.com/wskit/wskit/router/routertest"
)

func TestContractOfThePageIsCurrent(t *testing.T) {
	exampletest.CheckContract(t, describe)
}

// What the page sends and reads is what the server reads and sends.
func TestPageKeepsTheContract(t *testing.T) {
	exampletest.CheckTypes(t)
}

// with runs a test in a synctest bubble, where time passes only while all goroutines wait.
func with(t *testing.T, f func(*testing.T, *routertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, routertest.New(t, NewBoards(memory.New()).Router)) })
}

func enter(s *routertest.Server, name string) *routertest.Client {
	c := s.Dial(routertest.DialOptions{Token: strings.Repeat(name, 16)[:16]})
	routertest.ExpectReply[Joined](c.Request("board.join", Join{Board: "main", Name: name, Fresh: true}))
	return c
}

func stroke(id string) Stroke {
	return Stroke{ID: id, Line: Line{Width: 10, Points: []int{1, 2, 3, 4}}}
}

func draw(c *routertest.Client, id string) {
	routertest.ExpectReply[struct{}](c.Request("stroke.draw", stroke(id)))
}

// Members that come late get the drawing; a stroke that is sent again is in it once.
func TestLateMember(t *testing.T) {
	with(t, func(t *testing.T, s *routertest.Server) {
		ann := enter(s, "Ann")
		draw(ann, "a")
		draw(ann, "b")
		draw(ann, "a")
		bob := enter(s, "Bob")
		draw(bob, "a") // another stroke
		var got []string
		by := make(map[string]bool)
		for range 3 {
			s := routertest.ExpectEvent[Drawn](bob, "stroke.drawn")
			got = append(got, s.ID)
			by[s.By] = true
		}
		if !slices.Equal(got, []string{"a", "b", "a"}) || len(by) != 2 {
			t.Errorf("Bob gets %q of %d members", got, len(by))
		}
	})
}

func TestWhatIsNotDrawn(t *testing.T) {
	with(t, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: strings.Repeat("x", 16)})
		c.Request("stroke.draw", stroke("a")).ExpectError(errors.FailedPrecondition)
		c.Request("board.join", Join{Board: "main", Name: "\u200b"}).ExpectError(errors.InvalidArgument)
		c = enter(s, "Ann")
		odd := stroke("a")
		odd.Points = odd.Points[:3]
		c.Request("stroke.draw", odd).ExpectError(errors.InvalidArgument)
		outside := stroke("a")
		outside.Points[0] = 4096
		c.Request("stroke.draw", outside).ExpectError(errors.InvalidArgument)
	})
}

// A board is cleared if the board has no other members, if the others agree, and if they do not answer. It is kept if
// one refuses, and if the connection of one ends, as when the server shuts down.
func TestClear(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*routertest.Client) // nil: none in time
		want   Outcome
		code   errors.Code
	}{
		"agrees":          {func(c *routertest.Client) { reply(c, Confirmed{Yes: true}) }, Outcome{Cleared: true}, ""},
		"refuses":         {func(c *routertest.Client) { reply(c, Confirmed{}) }, Outcome{RefusedBy: "Bob"}, ""},
		"does not answer": {nil, Outcome{Cleared: true}, ""},
		"is gone":         {func(c *routertest.Client) { c.ExpectAny("board.confirm"); c.Vanish() }, Outcome{}, errors.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, s *routertest.Server) {
				ann, bob := enter(s, "Ann"), enter(s, "Bob")
				request := ann.Request("board.clear", nil)
				if c.answer != nil {
					c.answer(bob)
				} else {
					time.Sleep(confirmTime)
				}
				if c.code != "" {
					request.ExpectError(c.code)
				} else if got := routertest.ExpectReply[Outcome](request); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				time.Sleep(20 * time.Second) // for the limit
				bob.Vanish()
				synctest.Wait()
				if got := routertest.ExpectReply[Outcome](ann.Request("board.clear", nil)); !got.Cleared {
					t.Error("a member that is alone cannot clear the board")
				}
			})
		})
	}
}

func reply(c *routertest.Client, with Confirmed) {
	routertest.Answer(c, "board.confirm", func(q Confirm) (Confirmed, error) {
		if q.Name != "Ann" {
			return Confirmed{}, fmt.Errorf("%q asks", q.Name)
		}
		return with, nil
	})
}

// Members of a board have different colours, and keep them when they change their names.
func TestHues(t *testing.T) {
	with(t, func(t *testing.T, s *routertest.Server) {
		type person struct {
			Data Person `json:"data"`
		}
		type presence struct {
			Members []person `json:"members"`
			Joined  []person `json:"joined"`
			Changed []person `json:"changed"`
		}
		hues := make(map[string]int)
		ann := enter(s, "Ann")
		read := func() {
			p := routertest.ExpectEvent[presence](ann, "$ws:presence")
			for _, m := range append(append(p.Members, p.Joined...), p.Changed...) {
				hues[m.Data.Name] = m.Data.Hue
			}
		}
		read()
		for i := range 5 {
			enter(s, fmt.Sprint("other", i))
		}
		for len(hues) < 6 {
			read()
		}
		routertest.ExpectReply[Joined](ann.Request("board.join", Join{Board: "main", Name: "Anna"}))
		read()
		if hues["Anna"] != hues["Ann"] {
			t.Errorf("Ann had %d and has %d", hues["Ann"], hues["Anna"])
		}
		delete(hues, "Ann")
		seen := make(map[int]string)
		for name, hue := range hues {
			if seen[hue] != "" {
				t.Errorf("%s and %s have one colour", name, seen[hue])
			}
			seen[hue] = name
		}
	})
}
