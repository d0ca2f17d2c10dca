package deliverytest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is what [Check] found.
type Report struct {
	Published map[Outcome]int
	Received  int
	Resumed   int            // without a loss
	Resets    map[string]int // by reason, with those of Resumed
	Lost      int            // messages that were acknowledged and that the store may have lost
	// Violations are what must not be: a gap, a repetition, another order, without a reset.
	Violations []string
}

// String returns the figures in one line and each violation in one.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "published %d acked, %d failed, %d unknown; received %d; resumed %d", r.Published[Acked], r.Published[Failed], r.Published[Unknown], r.Received, r.Resumed)
	for _, reason := range slices.Sorted(maps.Keys(r.Resets)) {
		fmt.Fprintf(&b, "; reset %s %d", reason, r.Resets[reason])
	}
	fmt.Fprintf(&b, "; lost by the store %d; violations %d\n", r.Lost, len(r.Violations))
	for _, v := range r.Violations {
		b.WriteString(v + "\n")
	}
	return b.String()
}

// Check checks a recording.
//
// From when a client joined, or was reset, until it is reset the next time, what it received has to be
// a part of one order of the topic's messages that holds for all clients: no message twice, each directly
// after the same one as at any other client, none after one that was published later unless the store
// may have lost it since, and without those missing that were acknowledged and have to be in between. Connections
// that end and are resumed in between change nothing.
func Check(events []Event) Report {
	c := &checker{
		report: Report{Published: make(map[Outcome]int), Resets: make(map[string]int)},
		topics: make(map[string]*topic),
		places: make(map[place]*stay),
	}
	for _, e := range events {
		switch e.Kind {
		case Published:
			c.published(e)
		case MayLose:
			c.losses = append(c.losses, e)
		}
	}
	for _, e := range events {
		c.observed(e)
	}
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		c.order(c.topics[name])
		c.complete(c.topics[name])
	}
	return c.report
}

type checker struct {
	report Report
	topics map[string]*topic
	places map[place]*stay // where clients are members now
	losses []Event
}

// place is a client in a topic.
type place struct{ client, topic string }

type topic struct {
	name     string
	messages map[string]Event  // Published, by id
	ids      map[string]string // by position
	stays    []*stay
	// before has the message before each one, by position, and which clients received both.
	before map[string]link
	after  map[string]link
	lost   map[string]bool
}

type link struct{ pos, client string }

// stay is what a client received between two resets.
type stay struct {
	place
	since    int64
	start    string // the position, if known
	received []Event
	has      map[string]string // positions by id
	// earlier are the messages of the stay before, if they must not come again.
	earlier map[string]string
	settled int64 // 0: no
}

func (c *checker) violated(format string, args ...any) {
	c.report.Violations = append(c.report.Violations, fmt.Sprintf(format, args...))
}

func (c *checker) topic(name string) *topic {
	t := c.topics[name]
	if t == nil {
		t = &topic{
			name: name, messages: make(map[string]Event), ids: make(map[string]string),
			before: make(map[string]link), after: make(map[string]link), lost: make(map[string]bool),
		}
		c.topics[name] = t
	}
	return t
}

func (c *checker) published(e Event) {
	c.report.Published[e.Outcome]++
	t := c.topic(e.Topic)
	if _, ok := t.messages[e.ID]; ok {
		c.violated("topic %q: the publishing of %q is recorded twice", e.Topic, e.ID)
	}
	t.messages[e.ID] = e
}

// observed takes what a client observed.
func (c *checker) observed(e Event) {
	at := place{e.Client, e.Topic}
	s := c.places[at]
	switch e.Kind {
	case Joined:
		c.begin(at, e, nil)
	case Received:
		c.received(at, s, e)
	case Reset, Resumed:
		if e.Kind == Resumed && e.OK {
			c.report.Resumed++
			if s == nil {
				c.violated("%v: resumed without having joined", at)
			}
			return
		}
		c.report.Resets[e.Reason]++
		if e.Reason == "" {
			c.violated("%v: %s without a reason", at, e.Kind)
		}
		var earlier map[string]string
		if s != nil && (e.Reason == "trimmed" || e.Reason == "tooFar") {
			earlier = s.has
		}
		if c.begin(at, e, earlier); e.Reason == Denied {
			delete(c.places, at)
		}
	case Left:
		delete(c.places, at)
	case Settled:
		if s != nil {
			s.settled = e.At
		}
	}
}

// begin begins a stay.
func (c *checker) begin(at place, e Event, earlier map[string]string) {
	s := &stay{place: at, since: e.At, start: e.Pos, has: make(map[string]string), earlier: earlier}
	c.places[at] = s
	t := c.topic(at.topic)
	t.stays = append(t.stays, s)
}

func (c *checker) received(at place, s *stay, e Event) {
	c.report.Received++
	t := c.topic(at.topic)
	m, ok := t.messages[e.ID]
	switch {
	case !ok:
		c.violated("%v: received %q, which was not published", at, e.ID)
		return
	case m.Outcome == Failed:
		c.violated("%v: received %q, whose publishing failed", at, e.ID)
	case m.Begun > e.At:
		c.violated("%v: received %q before it was published", at, e.ID)
	case e.Pos == "":
		c.violated("%v: received %q without a position", at, e.ID)
		return
	case s == nil:
		c.violated("%v: received %q, and is no member", at, e.ID)
		return
	case s.has[e.ID] != "":
		c.violated("%v: received %q twice", at, e.ID)
		return
	case c.again(s, m, e.Pos):
		c.violated("%v: received %q twice, at %s and at %s, the second time after a reset that does not explain it", at, e.ID, s.earlier[e.ID], e.Pos)
	}
	if s == nil {
		return
	}
	if id, ok := t.ids[e.Pos]; ok && id != e.ID {
		c.violated("topic %q: %q and %q have the same position", at.topic, id, e.ID)
	}
	t.ids[e.Pos] = e.ID
	s.has[e.ID] = e.Pos
	s.received = append(s.received, e)
}

// again reports whether a message comes for a second time though the reset before says only that messages are
// missing. If the store lost the message, its publisher may have appended it once more, at another position: a
// log that has lost its end and then grown past the client's position can only say that messages were removed.
func (c *checker) again(s *stay, m Event, pos string) bool {
	before := s.earlier[m.ID]
	return before != "" && (before == pos || !c.mayBeLost(m))
}

// order checks that there is one order for all clients.
func (c *checker) order(t *topic) {
	for _, s := range t.stays {
		last, latest := s.start, Event{}
		for _, e := range s.received {
			m := t.messages[e.ID]
			// What the store has lost is appended again by a request that was on its way.
			if m.Outcome == Acked && m.At < latest.Begun && !c.mayBeLost(m) {
				c.violated("%v: received %q after %q, which was published later", s.place, e.ID, latest.ID)
			}
			if m.Begun > latest.Begun {
				latest = m
			}
			if last != "" {
				c.follows(t, s, last, e.Pos)
			}
			last = e.Pos
		}
	}
	// A message that is behind itself.
	done := make(map[string]bool)
	for pos := range t.before {
		walk := make(map[string]bool)
		for p, ok := pos, true; ok && !done[p]; {
			if walk[p] {
				c.violated("topic %q: clients received %q and others in different orders", t.name, t.ids[p])
				break
			}
			walk[p] = true
			var l link
			l, ok = t.before[p]
			p = l.pos
		}
		maps.Copy(done, walk)
	}
	if len(c.losses) > 0 {
		return
	}
	positions := make(map[string]string)
	for _, pos := range slices.Sorted(maps.Keys(t.ids)) {
		if other, ok := positions[t.ids[pos]]; ok {
			c.violated("topic %q: %q has the positions %q and %q", t.name, t.ids[pos], other, pos)
		}
		positions[t.ids[pos]] = pos
	}
}

// follows notes that a client received the message at pos directly after the one at last.
func (c *checker) follows(t *topic, s *stay, last, pos string) {
	if other, ok := t.before[pos]; ok && other.pos != last {
		c.violated("topic %q: %s received %q directly after %s, and %s directly after %s: one of them missed a message",
			t.name, s.client, t.ids[pos], t.text(last), other.client, t.text(other.pos))
		return
	}
	t.before[pos] = link{last, s.client}
	// A store that loses the end of a log goes on in another way.
	if other, ok := t.after[last]; ok && other.pos != pos && len(c.losses) == 0 {
		c.violated("topic %q: directly after %s, %s received %q, and %s received %q: one of them missed a message",
			t.name, t.text(last), s.client, t.ids[pos], other.client, t.ids[other.pos])
		return
	}
	t.after[last] = link{pos, s.client}
}

func (t *topic) text(pos string) string {
	if id, ok := t.ids[pos]; ok {
		return fmt.Sprintf("%q", id)
	}
	return fmt.Sprintf("the position %q", pos)
}

// complete checks that nothing is missing.
func (c *checker) complete(t *topic) {
	messages := slices.SortedFunc(maps.Values(t.messages), func(a, b Event) int { return cmp.Compare(a.Begun, b.Begun) })
	var settled *stay
	for _, s := range t.stays {
		var until int64 // what was acknowledged before is there
		for _, e := range s.received {
			until = max(until, t.messages[e.ID].Begun)
		}
		until = max(until, s.settled)
		for _, m := range messages {
			switch {
			case m.Outcome != Acked || m.Begun <= s.since || m.At >= until || s.has[m.ID] != "":
			case c.mayBeLost(m):
				t.lost[m.ID] = true
			default:
				c.violated("%v: missed %q, which was published after it joined", s.place, m.ID)
			}
		}
		if s.settled == 0 || len(s.received) == 0 {
			continue
		}
		if settled != nil && last(settled) != last(s) {
			c.violated("topic %q: at the end %s has received everything up to %s, and %s up to %s", t.name, s.client, t.text(last(s)), settled.client, t.text(last(settled)))
		}
		settled = s
	}
	c.report.Lost += len(t.lost)
}

func last(s *stay) string { return s.received[len(s.received)-1].Pos }

func (c *checker) mayBeLost(m Event) bool {
	return slices.ContainsFunc(c.losses, func(l Event) bool { return m.Begun <= l.At && l.Begun <= m.At })
}
