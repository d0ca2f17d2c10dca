package webhook

import (
	"encoding/json"
	"hash/fnv"
	"sync"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// fact is something that may be true: a topic has subscribers, a user is present in it, a connection is open.
type fact struct {
	Kind       string `json:"kind"`
	Topic      string `json:"topic,omitempty"`
	Tenant     string `json:"tenant,omitempty"`
	User       string `json:"user,omitempty"`
	Connection string `json:"connection,omitempty"`
}

// kind has the words of a kind of facts.
type kind struct{ name, begun, ended string }

const (
	topics      = "topic"
	members     = "member"
	connections = "connection"

	reset = "reset"
)

var kinds = []kind{{topics, "occupied", "vacated"}, {members, "joined", "left"}, {connections, "opened", "closed"}}

// typ is the type of the event that says whether a fact is true.
func (k kind) typ(is bool) string {
	if is {
		return k.name + "." + k.begun
	}
	return k.name + "." + k.ended
}

// event says whether the fact is true.
func (f fact) event(is bool) Event {
	e := Event{Topic: f.Topic, Tenant: f.Tenant, User: f.User, Connection: f.Connection}
	for _, k := range kinds {
		if k.name == f.Kind {
			e.Type = k.typ(is)
		}
	}
	return e
}

// key is the fact as text.
func (f fact) key() string {
	b, _ := json.Marshal(f) // strings alone
	return string(b)
}

// factOf reads what key wrote.
func factOf(key []byte) (f fact, ok bool) { return f, json.Unmarshal(key, &f) == nil && f.Kind != "" }

// shards is how many lists of facts there are, so that none of them is too long to be read at once: a Presence on Redis
// or PostgreSQL lists 10,000 members of a topic.
const shards = 64

// shard is the list that a fact is in.
func (f fact) shard() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(f.key()))
	return int(h.Sum32() % shards)
}

// truth is which facts are true, from what all processes report.
type truth struct {
	mu      sync.Mutex
	count   map[fact]int       // of reports that say so
	changed map[fact]time.Time // since when; those that were not looked at
	wake    chan struct{}      // holds a token when there is something to look at
}

func newTruth() *truth {
	return &truth{count: make(map[fact]int), changed: make(map[fact]time.Time), wake: make(chan struct{}, 1)}
}

// wakeUp has the sender look.
func wakeUp(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// add counts n more reports of a fact. t.mu is held.
func (t *truth) add(f fact, n int) {
	before := t.count[f]
	if t.count[f] += n; t.count[f] == 0 {
		delete(t.count, f)
	}
	if (before > 0) != (t.count[f] > 0) {
		t.changed[f] = time.Now()
		wakeUp(t.wake)
	}
}

// source is what is reported of one topic of the presence.
type source struct {
	truth  *truth
	fact   func(pubsub.Member) (fact, bool)
	by     map[string]fact // the reports, by the id of the member
	closed bool
}

// report takes a report of the presence.
func (s *source) report(r pubsub.PresenceReport) {
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	if s.closed {
		return
	}
	present := make(map[string]bool, len(r.Present))
	for _, m := range r.Present {
		present[m.ID] = true
		f, ok := s.fact(m)
		if old, had := s.by[m.ID]; had && ok && old == f {
			continue
		}
		s.drop(m.ID)
		if ok {
			s.by[m.ID] = f
			s.truth.add(f, 1)
		}
	}
	if r.Complete {
		for id := range s.by {
			if !present[id] {
				s.drop(id)
			}
		}
	}
	for _, id := range r.Left {
		s.drop(id)
	}
}

// drop takes a report back. truth.mu is held.
func (s *source) drop(id string) {
	if f, had := s.by[id]; had {
		delete(s.by, id)
		s.truth.add(f, -1)
	}
}

// close takes all reports back.
func (s *source) close() {
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	s.closed = true
	for id := range s.by {
		s.drop(id)
	}
}
