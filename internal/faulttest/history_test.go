package faulttest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var begin = time.UnixMicro(1_800_000_000_000_000)

func after(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

// goodHistory is a history without violations.
func goodHistory() *History {
	h := &History{From: begin, To: after(60), Conns: map[string]*Conn{
		"held":    {End: Closed, Joined: after(1), Alive: after(50)},
		"drained": {End: Drained, Alive: after(20)},
		"broke":   {End: Broke, Joined: after(1), Alive: after(30)},
	}}
	h.Faults = []Fault{
		{Name: "redis-stall", From: after(5), To: after(7), Away: true},
		{Name: "redis-kill", From: after(8), To: after(10), Away: true, Lost: true},
		{Name: "rolling-deploy", From: after(20), To: after(22)},
		{Name: "server-kill", From: after(30), To: after(31), Killed: []string{"broke"}},
	}
	add := func(conn, typ string, at float64, ok bool) {
		r := &Request{ID: fmt.Sprint(typ, len(h.Requests)), Type: typ, Conn: conn, Sent: after(at), Answers: 1, OK: ok}
		h.Requests = append(h.Requests, r)
		if ok {
			h.Handled = append(h.Handled, Handled{typ, r.ID, after(at + 0.01)})
		}
	}
	for i := range 100 {
		at := float64(i) / 2
		for _, typ := range workTypes {
			add("held", typ, at, typ != "closed" || at < 4 || at > 11)
		}
		h.Received = append(h.Received, Received{"held", "t", "one", i}, Received{"held", "t", "two", 2 * i})
	}
	// Neither answered nor handled: their connections broke.
	h.Requests = append(h.Requests, &Request{ID: "lost", Type: "work", Conn: "broke", Sent: after(30)},
		&Request{ID: "late", Type: "work", Conn: "drained", Sent: after(20)},
		&Request{ID: "unknown", Type: "work", Conn: "broke", Sent: after(29.9)})
	h.Handled = append(h.Handled, Handled{"work", "unknown", after(29.95)})
	h.Sightings = []Sighting{
		{after(40), after(40.1), []string{"held", "broke"}},
		{after(46), after(46.1), []string{"held"}},
	}
	return h
}

func (h *History) find(typ string, from float64) *Request {
	for _, r := range h.Requests {
		if r.Type == typ && !r.Sent.Before(after(from)) {
			return r
		}
	}
	panic("the history has no such request")
}

// The check finds nothing in a good history, and finds each violation that is added to it.
func TestCheckFindsViolations(t *testing.T) {
	if got := goodHistory().Check(3); len(got) > 0 {
		t.Fatalf("in a good history the check finds %q", got)
	}
	handle := func(h *History, r *Request) {
		h.Handled = append(h.Handled, Handled{r.Type, r.ID, r.Sent.Add(10 * time.Millisecond)})
	}
	for name, c := range map[string]struct {
		damage func(*History)
		want   string
	}{
		"an answer twice":                       {func(h *History) { h.find("work", 3).Answers = 2 }, "answered 2 times"},
		"an answer twice, the connection broke": {func(h *History) { h.find("work", 29.8).Answers = 2; h.find("work", 29.8).Conn = "broke" }, "answered 2 times"},
		"no answer":                             {func(h *History) { h.find("slow", 3).Answers = 0 }, "not answered, though"},
		"no answer, drained":                    {func(h *History) { r := h.find("slow", 3); r.Answers, r.OK, r.Conn = 0, false, "drained" }, "shut down"},
		"work lost":                             {func(h *History) { h.Handled = h.Handled[1:] }, "acknowledged, but not handled"},
		"work twice":                            {func(h *History) { h.Handled = append(h.Handled, h.Handled[7]) }, "handled 2 times"},
		"unknown work twice":                    {func(h *History) { h.Handled = append(h.Handled, h.Handled[len(h.Handled)-1]) }, "handled 2 times"},
		"FailClosed admits":                     {func(h *History) { handle(h, h.find("closed", 6)) }, "FailClosed while Redis was away"},
		"FailClosed too much":                   {func(h *History) { flood(h, "closed", 12, 19, 110) }, "under FailClosed in"},
		"FailLocal too much":                    {func(h *History) { flood(h, "local", 12, 19, 450) }, "under FailLocal in"},
		"a duplicate":                           {func(h *History) { h.Received = append(h.Received, h.Received[199]) }, "twice or out of order"},
		"out of order":                          {func(h *History) { h.Received[20], h.Received[24] = h.Received[24], h.Received[20] }, "twice or out of order"},
		"a ghost":                               {func(h *History) { h.Sightings[1].Members = []string{"held", "broke"} }, "of a killed server is a member"},
		"not seen":                              {func(h *History) { h.Sightings[1].Members = nil }, "is not seen"},
		"a failed shutdown":                     {func(h *History) { h.Faults[2].Failed = errors.New("exit status 1") }, "rolling-deploy failed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := goodHistory()
			c.damage(h)
			got := h.Check(3)
			if !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("the check finds %q, want %q", got, c.want)
			}
		})
	}
}

// flood has n requests admitted within a span.
func flood(h *History, typ string, from, to float64, n int) {
	for i := range n {
		r := &Request{ID: fmt.Sprint("flood", i), Type: typ, Conn: "held", Sent: after(from + (to-from)*float64(i)/float64(n)), Answers: 1, OK: true}
		h.Requests = append(h.Requests, r)
		h.Handled = append(h.Handled, Handled{typ, r.ID, r.Sent.Add(time.Millisecond)})
	}
}
