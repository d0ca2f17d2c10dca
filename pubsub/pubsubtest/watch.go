package pubsubtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// view is what a watcher has been reported of a topic.
type view struct {
	sub pubsub.Subscription

	mu      sync.Mutex
	members map[string]pubsub.Member
	joined  map[string]int // how often a member was reported that was not there
	left    map[string]int // how often a member was reported as left that was there
	reports int
	first   pubsub.PresenceReport
	running atomic.Int32
	late    atomic.Bool // two reports ran at once
}

func (v *view) report(r pubsub.PresenceReport) {
	if v.running.Add(1) != 1 {
		v.late.Store(true)
	}
	defer v.running.Add(-1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reports++; v.reports == 1 {
		v.first = r
	}
	gone := r.Left
	if r.Complete {
		for id := range v.members {
			if !slices.ContainsFunc(r.Present, func(m pubsub.Member) bool { return m.ID == id }) {
				gone = append(gone, id)
			}
		}
	}
	for _, id := range gone {
		if _, ok := v.members[id]; ok {
			v.left[id]++
			delete(v.members, id)
		}
	}
	for _, m := range r.Present {
		if _, ok := v.members[m.ID]; !ok {
			v.joined[m.ID]++
		}
		v.members[m.ID] = m
	}
}

func (v *view) ids() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.members))
}

func (s *presenceSuite) watch(p pubsub.Presence, topic string) *view {
	s.Helper()
	v := &view{members: make(map[string]pubsub.Member), joined: make(map[string]int), left: make(map[string]int)}
	sub, err := p.(pubsub.PresenceWatcher).Watch(context.Background(), topic, v.report)
	if err != nil || sub == nil {
		s.broken("a presence that is up is watched", "Watch of %s: %v, %v", short(topic), sub, err)
	}
	v.sub = sub
	s.Cleanup(func() { _ = sub.Close() })
	return v
}

// shows waits until the view has these members.
func (s *presenceSuite) shows(v *view, rule string, want ...string) {
	s.Helper()
	slices.Sort(want)
	var got []string
	if !poll.Within(timeLimit, func() bool { got = v.ids(); return slices.Equal(got, want) }) {
		s.broken(rule, "after %v a watcher has been reported %.200q, not %.200q", timeLimit, got, want)
	}
}

const reported = "each change is reported to all watchers of the topic, in every process"

func watchersSeeChanges(s *presenceSuite) {
	const complete = "the first report is complete, and is made before Watch returns"
	topic := s.topic("room")
	s.join(s.all[0], topic, pubsub.Member{ID: "a", User: "ann", Data: []byte("1")})
	s.join(s.all[1], topic, pubsub.Member{ID: "b", User: "\xff\x00", Data: []byte("\n\r\x00")})
	var views []*view
	for i := range 2 * len(s.all) {
		v := s.watch(s.all[i%len(s.all)], topic)
		if got := v.ids(); !v.first.Complete || !slices.Equal(got, []string{"a", "b"}) {
			s.broken(complete, "the first report is %v, and has %q", v.first.Complete, got)
		}
		views = append(views, v)
	}
	s.join(s.all[2], topic, pubsub.Member{ID: "c"})
	s.join(s.all[0], topic, pubsub.Member{ID: "a", User: "ann", Data: []byte("2")})
	s.join(s.all[0], topic, pubsub.Member{ID: "d"})
	s.all[1].Leave(topic, "b")
	for _, v := range views {
		s.shows(v, reported, "a", "c", "d")
		v.mu.Lock()
		a := v.members["a"]
		v.mu.Unlock()
		if a.User != "ann" || !bytes.Equal(a.Data, []byte("2")) {
			s.broken("a member is reported as it joined last", "a is %q with %q", a.User, a.Data)
		}
	}
	for _, id := range []string{"a", "c", "d"} {
		for _, p := range s.all {
			p.Leave(topic, id)
		}
	}
	for _, v := range views {
		s.shows(v, reported)
		if v.late.Load() {
			s.broken("reports are made one at a time", "two ran at once")
		}
	}
}

// listWithoutAGap begins to watch while members come and go: what stays is known at the end,
// however the list and the changes met.
func listWithoutAGap(s *presenceSuite) {
	const rule = "between the list and the changes after it nothing is missed"
	for round := range 15 {
		topic := s.topic(fmt.Sprint("room", round))
		var wg sync.WaitGroup
		var want []string
		for i := range 12 {
			id := strconv.Itoa(i)
			p := s.all[i%len(s.all)]
			if i%3 != 2 {
				want = append(want, id)
			}
			wg.Go(func() {
				s.join(p, topic, pubsub.Member{ID: id})
				if i%3 == 2 {
					p.Leave(topic, id)
				}
			})
		}
		views := make([]*view, len(s.all))
		for i := range views {
			wg.Go(func() { views[i] = s.watch(s.all[i], topic) })
		}
		wg.Wait()
		for _, v := range views {
			s.shows(v, rule, want...)
		}
	}
}

// watchersAgree has every process join and leave the same IDs again and again.
func watchersAgree(s *presenceSuite) {
	const rule = "changes are reported in order: at the end all watchers know what is so"
	topic := s.topic("room")
	var views []*view
	for _, p := range s.all {
		views = append(views, s.watch(p, topic))
	}
	var wg sync.WaitGroup
	var want []string
	for g := range 9 {
		id := fmt.Sprint("m", g)
		if g%2 == 0 {
			want = append(want, id)
		}
		wg.Go(func() {
			p := s.all[g%len(s.all)]
			for i := range 30 {
				s.join(p, topic, pubsub.Member{ID: id, Data: []byte(strconv.Itoa(i))})
				if i%3 == 0 {
					p.Leave(topic, id)
				}
			}
			if g%2 != 0 {
				p.Leave(topic, id)
			}
		})
	}
	wg.Wait()
	for i, v := range views {
		s.shows(v, rule, want...)
		var wrong string
		if !poll.Within(timeLimit, func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			wrong = ""
			for id, m := range v.members {
				if string(m.Data) != "29" {
					wrong = id + " has " + string(m.Data)
				}
			}
			return wrong == ""
		}) {
			s.broken(rule, "watcher %d: %s, not 29", i, wrong)
		}
	}
}

func changesAreReportedOnce(s *presenceSuite) {
	const rule = "a member that stays is never reported as left, and one that left is not reported again"
	topic := s.topic("room")
	s.join(s.all[0], topic, pubsub.Member{ID: "stays"})
	v := s.watch(s.all[1], topic)
	for i := range 20 {
		id := fmt.Sprint("m", i)
		s.join(s.all[i%2], topic, pubsub.Member{ID: id})
		s.shows(v, reported, "stays", id)
		s.all[i%2].Leave(topic, id)
		s.shows(v, reported, "stays")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, n := range v.joined {
		if n != 1 || v.left[id] > 1 || id == "stays" && v.left[id] != 0 {
			s.broken(rule, "%s was reported as joined %d times, as left %d times", id, n, v.left[id])
		}
	}
}

func watchedTopicsAreApart(s *presenceSuite) {
	const rule = "a watcher is reported its topic, and no other"
	var views []*view
	var topics []string
	for _, name := range confusable() {
		topics = append(topics, s.topic(name))
	}
	for i, topic := range topics {
		views = append(views, s.watch(s.all[i%2], topic))
	}
	for i, topic := range topics {
		s.join(s.all[(i+1)%2], topic, pubsub.Member{ID: strconv.Itoa(i)})
	}
	for i, v := range views {
		s.shows(v, rule, strconv.Itoa(i))
	}
	for i, v := range views { // what went astray has come by now
		if got := v.ids(); !slices.Equal(got, []string{strconv.Itoa(i)}) {
			s.broken(rule, "a watcher of %s has %q", short(topics[i]), got)
		}
	}
}

func nothingAfterClose(s *presenceSuite) {
	const rule = "after Close no report begins, and others go on"
	topic := s.topic("room")
	v, witness := s.watch(s.all[0], topic), s.watch(s.all[0], topic)
	s.join(s.all[1], topic, pubsub.Member{ID: "a"})
	s.shows(v, reported, "a")
	for range 2 {
		if err := v.sub.Close(); err != nil {
			s.broken("closing works, again and again", "Close: %v", err)
		}
	}
	v.mu.Lock()
	before := v.reports
	v.mu.Unlock()
	s.join(s.all[1], topic, pubsub.Member{ID: "b"})
	s.shows(witness, rule, "a", "b")
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reports != before {
		s.broken(rule, "%d reports came after it", v.reports-before)
	}
}

func watchOutlivesItsContext(s *presenceSuite) {
	const rule = "a context is for the call alone: a watch lasts until it is closed"
	topic := s.topic("room")
	v := &view{members: make(map[string]pubsub.Member), joined: make(map[string]int), left: make(map[string]int)}
	ctx, cancel := context.WithCancel(context.Background())
	sub, err := s.all[0].(pubsub.PresenceWatcher).Watch(ctx, topic, v.report)
	if err != nil {
		s.broken("a presence that is up is watched", "Watch: %v", err)
	}
	defer func() { _ = sub.Close() }()
	cancel()
	for range 50 { // what the end of a context sets off may run a few calls later
		runtime.Gosched()
		s.join(s.all[1], topic, pubsub.Member{ID: "a"})
		s.shows(v, rule, "a")
		s.all[1].Leave(topic, "a")
		s.shows(v, rule)
	}
}
