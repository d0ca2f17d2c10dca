package faulttest

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A History is the record of one run by clients, servers and the nemesis. All instants are
// of the local clock. [History.Check] checks the guarantees.
type History struct {
	From, To  time.Time
	Requests  []*Request
	Handled   []Handled
	Received  []Received
	Conns     map[string]*Conn
	Faults    []Fault
	Sightings []Sighting
}

// A Request is one request frame of a client, and its answer.
type Request struct {
	ID, Type, Conn string
	Sent           time.Time
	Answers        int // terminal ones
	OK             bool
	Code           string // of an error
}

// Handled is a line of a server's journal: the limits admitted a request and its handler ran.
type Handled struct {
	Type, ID string
	At       time.Time
}

// Received is an event of a topic at a subscriber, in the order of arrival.
type Received struct {
	Conn, Topic, From string
	N                 int
}

// End is how a connection ended.
type End int

// How connections end.
const (
	Open    End = iota // not yet
	Broke              // by the network or the server, or by the client before all answers
	Drained            // the server closed it with 1001
	Closed             // the client closed it after all answers
)

// Conn is a connection of a client.
type Conn struct {
	End    End
	Joined time.Time // the presence topic; zero: never
	// Alive is when the last request that the server handled was sent. The instant at which
	// the client sees the end of the connection may be much later.
	Alive  time.Time
	Server string
}

// A Fault is a fault that was injected, and its duration.
type Fault struct {
	Name     string
	From, To time.Time
	// Away: servers got no answer of Redis from From to To. Lost: Redis lost its data.
	Away, Lost bool
	// Killed are the connections of the server that was killed at From.
	Killed []string
	// Failed is the error of a step that must not fail, such as a shutdown.
	Failed error
}

// A Sighting is the members of the presence topic, as a server reported them.
type Sighting struct {
	Sent, Answered time.Time
	Members        []string
}

// processTimeout is how long members of a killed server may stay in presence.
const processTimeout = 15 * time.Second

// Check returns the violated guarantees.
func (h *History) Check(servers int) (violations []string) {
	broken := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	handled := make(map[string][]Handled)
	for _, d := range h.Handled {
		handled[d.ID] = append(handled[d.ID], d)
	}
	for _, r := range h.Requests {
		runs := handled[r.ID]
		end := h.Conns[r.Conn].End
		switch {
		case r.Answers > 1:
			broken("answered %d times: %s %s", r.Answers, r.Type, r.ID)
		case r.Answers == 0 && end == Closed:
			broken("not answered, though the connection held: %s %s", r.Type, r.ID)
		case r.Answers == 0 && end == Drained && len(runs) > 0:
			broken("handled, but not answered by a server that shut down: %s %s", r.Type, r.ID)
		}
		if journaled(r.Type) && r.OK && len(runs) == 0 {
			broken("acknowledged, but not handled: %s %s", r.Type, r.ID)
		}
		if len(runs) > 1 {
			broken("handled %d times: %s %s", len(runs), r.Type, r.ID)
		}
	}
	violations = append(violations, h.checkLimits(handled, servers)...)
	violations = append(violations, h.checkTopics()...)
	violations = append(violations, h.checkPresence()...)
	for _, f := range h.Faults {
		if f.Failed != nil {
			broken("%s failed: %v", f.Name, f.Failed)
		}
	}
	return violations
}

// journaled reports whether servers write requests of a type to their journals.
func journaled(typ string) bool { return slices.Contains(workTypes, typ) }

var workTypes = []string{"work", "slow", "local", "closed"}

// checkLimits counts admissions. A decision is made between the sending of a request and its
// handling. So if a request was sent and handled within a span, its decision was made within it.
func (h *History) checkLimits(handled map[string][]Handled, servers int) (violations []string) {
	admitted := func(typ string, from, to time.Time) (n int) {
		for _, r := range h.Requests {
			if r.Type == typ && len(handled[r.ID]) > 0 && !r.Sent.Before(from) && !handled[r.ID][0].At.After(to) {
				n++
			}
		}
		return n
	}
	spans := []Fault{{Name: "the run", From: h.From, To: h.To}}
	for i, f := range h.Faults {
		if n := admitted("closed", f.From, f.To); f.Away && n > 0 {
			violations = append(violations, fmt.Sprintf("%d requests admitted under FailClosed while Redis was away: %s at %v", n, f.Name, f.From))
		}
		before := h.From
		if i > 0 {
			before = h.Faults[i-1].To
		}
		spans = append(spans, Fault{Name: "before " + f.Name, From: before, To: f.From}, Fault{Name: f.Name, From: f.From, To: f.To})
	}
	for _, s := range spans {
		lost, started := 0, 0
		for _, f := range h.Faults {
			if f.From.Before(s.To) && s.From.Before(f.To) {
				if f.Lost {
					lost++
				}
				started += servers // at most: each may have been started again
			}
		}
		seconds := s.To.Sub(s.From).Seconds()
		worth := func(buckets int, capacity, refill int64) int {
			return buckets*int(capacity) + int(float64(refill)*seconds) + 1
		}
		if n, most := admitted("closed", s.From, s.To), worth(1+lost, closedPolicy.Capacity, closedPolicy.Refill); n > most {
			violations = append(violations, fmt.Sprintf("%d requests admitted under FailClosed in %.1f s (%s), at most %d may be", n, seconds, s.Name, most))
		}
		// Each server may admit the policy once, in addition to Redis.
		most := worth(1+lost+servers+started, localPolicy.Capacity, localPolicy.Refill*int64(1+servers))
		if n := admitted("local", s.From, s.To); n > most {
			violations = append(violations, fmt.Sprintf("%d requests admitted under FailLocal in %.1f s (%s), at most %d may be", n, seconds, s.Name, most))
		}
	}
	return violations
}

// checkTopics: the messages of a sender arrive in order, and at most once.
func (h *History) checkTopics() (violations []string) {
	type stream struct{ conn, topic, from string }
	last := make(map[stream]int)
	for _, e := range h.Received {
		s := stream{e.Conn, e.Topic, e.From}
		if before, ok := last[s]; ok && e.N <= before {
			violations = append(violations, fmt.Sprintf("message %d of %s came after %d at %s: twice or out of order", e.N, e.From, before, e.Conn))
		}
		last[s] = e.N
	}
	return violations
}

// checkPresence: members of a killed server are removed in time, and members that have been
// present for that long without a fault of Redis are listed.
func (h *History) checkPresence() (violations []string) {
	for _, s := range h.Sightings {
		for _, f := range h.Faults {
			if s.Sent.Sub(f.From) <= processTimeout || h.redisFailed(f.From, s.Answered) {
				continue
			}
			for _, conn := range f.Killed {
				if slices.Contains(s.Members, conn) {
					violations = append(violations, fmt.Sprintf("%s of a killed server is a member after %v", conn, s.Sent.Sub(f.From)))
				}
			}
		}
		if h.redisFailed(s.Sent.Add(-processTimeout), s.Answered) {
			continue
		}
		for id, c := range h.Conns {
			there := !c.Joined.IsZero() && s.Sent.Sub(c.Joined) > processTimeout
			if there && c.Alive.After(s.Answered) && !slices.Contains(s.Members, id) {
				violations = append(violations, fmt.Sprintf("%s of %s has joined %v ago and is not seen%s", id, c.Server, s.Sent.Sub(c.Joined), h.faultsBefore(s.Sent)))
			}
		}
	}
	return violations
}

// faultsBefore lists the faults in the minute before an instant.
func (h *History) faultsBefore(at time.Time) string {
	var b strings.Builder
	for _, f := range h.Faults {
		if f.From.Before(at) && at.Sub(f.To) < time.Minute {
			fmt.Fprintf(&b, "; %s %.1f to %.1f s before", f.Name, at.Sub(f.From).Seconds(), at.Sub(f.To).Seconds())
		}
	}
	return b.String()
}

// redisFailed reports whether Redis was unavailable at any time within a span.
func (h *History) redisFailed(from, to time.Time) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.Away && f.From.Before(to) && from.Before(f.To) })
}

// readJournal reads the journal of a server.
func readJournal(name string) (all []Handled, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			return nil, fmt.Errorf("the journal has the line %q", lines.Text())
		}
		micros, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Handled{Type: words[0], ID: words[1], At: time.UnixMicro(micros)})
	}
	return all, nil
}
