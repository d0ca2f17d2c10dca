package main

import (
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/router/routertest"
)

// Who comes late sees where the others are, and from then on how they move.
func TestAllSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := routertest.New(t, newRouter())
		ann := s.Dial()
		routertest.ExpectReply[[]Position](ann.Request("join", nil))
		for x := range 3 {
			ann.Send("move", Position{X: float64(x)})
		}
		moved := routertest.ExpectEvent[[]Position](ann, "positions")
		if len(moved) != 1 || moved[0].X != 2 {
			t.Errorf("ann sees %v", moved)
		}
		bob := s.Dial()
		if there := routertest.ExpectReply[[]Position](bob.Request("join", nil)); len(there) != 1 || there[0] != moved[0] {
			t.Errorf("bob finds %v", there)
		}
		ann.Send("move", Position{X: 3})
		bob.Send("move", Position{X: 9})
		if moved := routertest.ExpectEvent[[]Position](bob, "positions"); len(moved) != 2 {
			t.Errorf("bob sees %v", moved)
		}
	})
}
