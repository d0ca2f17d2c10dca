package router

import (
	"testing"

	"github.com/wskit/wskit/router/internal/life"
)

// A connection whose frame is held by middleware is not read, so its pongs are not
// seen: it does not count as dead for that. One that is read does.
func TestAHeldConnectionIsNotTakenForDead(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	c, _ := pair(t, r)
	l := r.opts.Liveness
	now := c.stream.Heard() + l.PingInterval
	check := func(what string, closed bool) {
		t.Helper()
		c.check(now)
		if got := c.life.State() >= life.Closing; got != closed {
			t.Fatalf("%s: closing is %v, want %v", what, got, closed)
		}
		now += l.PongTimeout
	}
	check("at the ping", false)
	c.turn.BeginFrame()
	for range 10 {
		check("while a frame is held", false)
	}
	c.turn.EndFrame()
	check("when it has just been let go", false)
	check("when nothing has come for another timeout", true)
}
