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

// A History is what clients, servers and the nemesis saw of one run. All instants are
// of the clock of this machine. [History.Check] compares it with what users were
// promised.
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

// Handled is a line of a server's journal: a handler has run, past the limits.
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
	Broke              // the network or the server did it, or the client without waiting for answers
	Drained            // the server closed it with 1001
	Closed             // the client closed it, having waited for its answers
)

// Conn is a connection of a client.
type Conn struct {
	End    End
	Joined time.Time // the presence topic; zero: never
	// Alive is when the last of its requests was sent that the server handled. The end
	// of a connection is no such instant: a client that is slow to read sees it late.
	Alive  time.Time
	Server string
}

// A Fault is what the nemesis did to the system, and for how long.
type Fault struct {
	Name     string
	From, To time.Time
	// Away is a span in which servers could get no answer of Redis from From to To, and Lost
	// that Redis lost its data.
	Away, Lost bool
	// Killed are the connections of a server that was killed at From.
	Killed []string
	// Failed is what went wrong in a fault that must not fail, such as a shutdown.
	Failed error
}

// A Sighting is the members of the presence topic, as a server reported them.
type Sighting struct {
	Sent, Answered time.Time
	Members        []string
}

// presenceTTL is the promise about members of a killed server.
const presenceTTL = 15 * time.Second

// Check returns the promises that were broken.
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

// A decision lies between the sending of a request and its handling, so those of
// requests that were sent and handled within a span were made within it.
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
		// Each server by itself admits one policy's worth besides that of Redis.
		most := worth(1+lost+servers+started, localPolicy.Capacity, localPolicy.Refill*int64(1+servers))
		if n := admitted("local", s.From, s.To); n > most {
			violations = append(violations, fmt.Sprintf("%d requests admitted under FailLocal in %.1f s (%s), at most %d may be", n, seconds, s.Name, most))
		}
	}
	return violations
}

// checkTopics: what a sender publishes arrives in order, and once at most.
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

// checkPresence: members of a killed server are gone in time, and who has been there
// for as long without a fault of Redis is seen.
func (h *History) checkPresence() (violations []string) {
	for _, s := range h.Sightings {
		for _, f := range h.Faults {
			if s.Sent.Sub(f.From) <= presenceTTL || h.redisFailed(f.From, s.Answered) {
				continue
			}
			for _, conn := range f.Killed {
				if slices.Contains(s.Members, conn) {
					violations = append(violations, fmt.Sprintf("%s of a killed server is a member after %v", conn, s.Sent.Sub(f.From)))
				}
			}
		}
		if h.redisFailed(s.Sent.Add(-presenceTTL), s.Answered) {
			continue
		}
		for id, c := range h.Conns {
			there := !c.Joined.IsZero() && s.Sent.Sub(c.Joined) > presenceTTL
			if there && c.Alive.After(s.Answered) && !slices.Contains(s.Members, id) {
				violations = append(violations, fmt.Sprintf("%s of %s has joined %v ago and is not seen%s", id, c.Server, s.Sent.Sub(c.Joined), h.faultsBefore(s.Sent)))
			}
		}
	}
	return violations
}

// faultsBefore lists what was done in the minute before an instant.
func (h *History) faultsBefore(at time.Time) string {
	var b strings.Builder
	for _, f := range h.Faults {
		if f.From.Before(at) && at.Sub(f.To) < time.Minute {
			fmt.Fprintf(&b, "; %s %.1f to %.1f s before", f.Name, at.Sub(f.From).Seconds(), at.Sub(f.To).Seconds())
		}
	}
	return b.String()
}

// redisFailed reports whether Redis was away at any time within a span.
func (h *History) redisFailed(from, to time.Time) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.Away && f.From.Before(to) && from.Before(f.To) })
}

// readJournal reads what servers have handled.
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
