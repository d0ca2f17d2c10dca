package redis_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
)

var rooms = []string{"room:a", "log:a"}

// addRights lets clients enter the rooms, publish to them, and revoke the right of ann.
func addRights(r *router.Router) {
	r.History("log:*")
	router.RPC(r, "enter", func(c *router.Context, _ struct{}) (bool, error) {
		return true, errors.Join(c.Subscribe(rooms[0]), c.Subscribe(rooms[1]))
	})
	router.RPC(r, "say", func(c *router.Context, text string) (bool, error) {
		return true, errors.Join(c.Publish(rooms[0], "said", text), c.Publish(rooms[1], "said", text))
	})
	router.RPC(r, "ping", func(*router.Context, struct{}) (bool, error) { return true, nil })
	router.RPC(r, "revoke", func(c *router.Context, _ struct{}) (bool, error) {
		return true, r.Revoke(c, router.Right{Tenant: "acme", User: "ann", Topics: "*"})
	})
}

// rightsFrame is what these tests look at in a frame.
type rightsFrame struct {
	Type string `json:"type"`
	Meta struct {
		ID string `json:"correlationId"`
	} `json:"meta"`
	Payload json.RawMessage `json:"payload"`
}

// ask sends a request, and returns the answer, and the frames that came before it.
func (c *fleetClient) ask(typ, payload string) (answer rightsFrame, before []rightsFrame) {
	c.Helper()
	request := `{"type":"` + typ + `","meta":{"correlationId":"1"},"payload":` + payload + `}`
	if err := c.ws.Write(c.Context(), websocket.MessageText, []byte(request)); err != nil {
		c.Fatal(err)
	}
	for {
		f := c.frame()
		if f.Meta.ID != "" {
			return f, before
		}
		before = append(before, f)
	}
}

func (c *fleetClient) frame() (f rightsFrame) {
	c.Helper()
	text, err := c.read()
	if err != nil {
		c.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		c.Fatal(err)
	}
	return f
}

// mustNot checks that nothing has come that was said after the right was revoked.
func (c *fleetClient) mustNot(frames ...rightsFrame) {
	c.Helper()
	for _, f := range frames {
		if strings.Contains(string(f.Payload), "late") {
			c.Errorf("a user whose right was revoked gets %s %s", f.Type, f.Payload)
		}
	}
}

// revokedAway is the test of a process that does not take part while a right is revoked. away takes server i out, and back
// brings it back.
func revokedAway(f *fleetTest, i int, away, back func()) {
	ann, other, bob := f.mustDial(i, "ann"), f.mustDial(i, "ann"), f.mustDial(1-i, "bob")
	f.until("all are counted", f.r.AllConnections(), 3)
	entered, before := ann.ask("enter", "{}")
	if entered.Type != "enter.reply" {
		f.Fatalf("%+v", entered)
	}
	var at struct{ Topic, Pos, Ticket string }
	if err := json.Unmarshal(before[0].Payload, &at); err != nil || at.Ticket == "" {
		f.Fatalf("%s: %v", before[0].Payload, err)
	}
	away()
	for range 2 { // each waits for longer than ProcessTimeout
		if answer, _ := bob.ask("revoke", "{}"); answer.Type == "revoke.reply" {
			break
		} else if !strings.Contains(string(answer.Payload), "UNAVAILABLE") {
			f.Fatalf("Revoke: %s", answer.Payload)
		}
	}
	if answer, _ := bob.ask("say", `"late"`); answer.Type != "say.reply" {
		f.Fatalf("%+v", answer)
	}
	back()

	// Clients that resume at once, with the ticket of before: one that is there, and one that comes back.
	resume, err := json.Marshal(map[string]any{"topics": []any{map[string]string{"pos": at.Pos, "ticket": at.Ticket}}})
	if err != nil {
		f.Fatal(err)
	}
	denied := func(c *fleetClient) {
		eventually(f.T, "the ticket is answered", func() bool {
			answer, before := c.ask("$ws:resume", string(resume))
			c.mustNot(before...)
			if strings.Contains(string(answer.Payload), `"resumed":true`) {
				f.Fatalf("the ticket is good: %s", answer.Payload)
			}
			return strings.Contains(string(answer.Payload), `"denied"`)
		})
	}
	denied(other)
	again := dialUntilOpen(f, i, "ann")
	denied(again)
	for ended := 0; ended < len(rooms); {
		frame := ann.frame()
		ann.mustNot(frame)
		if frame.Type == "$ws:unsubscribed" {
			ended++
		}
	}
	// What was on its way has come when this does.
	for n := 0; n < 3; {
		var err error
		n, err = f.user("ann").Count(ctx)
		if err != nil && errors.CodeOf(err) != errors.Unavailable {
			f.Fatal(err)
		}
	}
	for _, c := range []*fleetClient{ann, other, again} {
		_, before := c.ask("ping", "{}")
		c.mustNot(before...)
	}
}

// dialUntilOpen opens a connection of a server that has just come back.
func dialUntilOpen(f *fleetTest, i int, user string) (c *fleetClient) {
	eventually(f.T, "a connection is opened", func() bool {
		var err error
		c, err = f.dial(i, user)
		return err == nil
	})
	return c
}

// A process that was away while a right was revoked carries it out before it delivers anything, and before it resumes a client
// with a ticket of before.
func TestRevokeWhileAProcessIsStopped(t *testing.T) {
	f := startFleet(t, redistest.Start(t).Addr, 1)
	child := f.children[0].Process
	revokedAway(f, 1, func() {
		if err := process.Stop(child); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if err := process.Continue(child); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRevokeWhileAProcessIsCutOff(t *testing.T) {
	for name, cut := range map[string]func(*redistest.Proxy){"cut": (*redistest.Proxy).Cut, "muted": (*redistest.Proxy).Mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.StartProxy(t, s.Addr)
			f := startFleetBehind(t, p.Addr, s.Addr, 1)
			revokedAway(f, 0, func() { cut(p) }, p.Mend)
		})
	}
}

// While Redis does not answer nothing is revoked, or it is; when it answers again Revoke succeeds.
func TestRevokeWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := startFleet(t, s.Addr, 1)
	for i, outage := range []func() func(){
		func() func() { s.Stall(); return s.Resume },
		func() func() { s.Kill(); return s.Run },
	} {
		ann := dialUntilOpen(f, 1, "ann")
		if answer, _ := ann.ask("enter", "{}"); answer.Type != "enter.reply" {
			t.Fatalf("%d: %s", i, answer.Payload)
		}
		end := outage()
		over, cancel := context.WithTimeout(ctx, time.Second)
		if err := f.r.Revoke(over, router.Right{Tenant: "acme", User: "ann", Topics: "*"}); errors.CodeOf(err) != errors.Unavailable {
			t.Errorf("%d: Revoke without Redis: %v", i, err)
		}
		cancel()
		end()
		eventually(t, "Revoke works again", func() bool {
			return f.r.Revoke(ctx, router.Right{Tenant: "acme", User: "ann", Topics: "*"}) == nil
		})
		for _, topic := range rooms {
			if err := f.r.Publish(ctx, topic, "said", "late"); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if answer, before := ann.ask("ping", "{}"); answer.Type == "" {
			t.Errorf("%d: %s", i, answer.Payload)
		} else {
			ann.mustNot(before...)
		}
		_ = ann.ws.CloseNow()
	}
}
