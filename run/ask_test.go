package run_test

import (
	"encoding/json"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// answer answers the question of a run, and returns whether the run has taken it.
func answer(c *routertest.Client, id, question, data string) bool {
	q := c.Request("run.steer", run.Steer{Run: id, To: question, Data: json.RawMessage(data)})
	return routertest.ExpectReply[run.Steered](q).Taken
}

// A question goes to all devices of the user, also to one that comes later. The first answer counts, and all devices
// see that the question is answered.
func TestAsk(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		phone, desk := s.Dial(routertest.DialOptions{Token: "ann.1"}), s.Dial(routertest.DialOptions{Token: "ann.2"})
		id := begin(phone, "a ASK b")
		first := attach(t, phone, id)
		for len(first.open) == 0 {
			first.next()
		}
		second := attach(t, desk, id)
		if got := second.open["1"]; got != `"how many?"` {
			t.Fatalf("a device that comes later sees the questions %v", second.open)
		}
		if !answer(desk, id, "1", "7") {
			t.Error("the first answer was not taken")
		}
		if answer(phone, id, "1", "8") {
			t.Error("a second answer was taken")
		}
		phone.Request("run.steer", run.Steer{Run: id, To: "2", Data: json.RawMessage("1")}).ExpectError(errors.NotFound)
		for name, v := range map[string]*viewer{"phone": first, "desk": second} {
			if got := v.watch(); got != "a <7> b " || len(v.open) != 0 {
				t.Errorf("%s: %q, and the questions %v are open", name, got, v.open)
			}
		}
		if answer(phone, id, "1", "9") {
			t.Error("an answer was taken after the end")
		}
	})
}

// A question that the handler gives up is open no more, and its answer not taken; one of the wrong type fails the run.
func TestAskWithoutAnAnswer(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		v := attach(t, c, begin(c, "ASK-SOON"))
		for v.next(); len(v.open) > 0; v.next() {
		}
		if answer(c, v.id, "1", "7") {
			t.Error("the answer to a question that was given up was taken")
		}
		if v.watch(); v.end.State != run.Failed || v.end.Code != errors.DeadlineExceeded {
			t.Errorf("the end is %+v", v.end)
		}
		v = attach(t, c, begin(c, "ASK"))
		v.next()
		answer(c, v.id, "1", `"many"`)
		if v.watch(); v.end.State != run.Failed || v.end.Code != errors.InvalidArgument {
			t.Errorf("the end is %+v", v.end)
		}
		v = attach(t, c, begin(c, "ASK"))
		v.next()
		c.Request("run.stop", run.Ref{Run: v.id})
		if v.watch(); v.end.State != run.Stopped || len(attach(t, c, v.id).open) != 0 {
			t.Errorf("the end is %+v", v.end)
		}
	})
}

// A client watches more runs than it may have topics, one after the other.
func TestDetach(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		for range 300 {
			id := begin(c, "a")
			attach(t, c, id).watch()
			routertest.ExpectReply[struct{}](c.Request("run.detach", run.Ref{Run: id}))
		}
	})
}
