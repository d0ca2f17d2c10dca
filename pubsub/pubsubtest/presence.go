package pubsubtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// RunPresence does for a [pubsub.Presence] what [Run] does for a broker: it calls
// open for every part of the suite, for n of them that share topics, as the
// processes of one deployment do.
func RunPresence(t *testing.T, open func(t *testing.T, n int) []pubsub.Presence) {
	for _, part := range []struct {
		name string
		n    int
		run  func(*presenceSuite)
	}{
		{"JoinedIsSeenEverywhere", 3, joinedIsSeen},
		{"LeftIsSeenNowhere", 3, leftIsNotSeen},
		{"LeavingConcernsOneMember", 2, leavingConcernsOne},
		{"MembersArriveUnchanged", 2, membersUnchanged},
		{"JoiningAgainReplaces", 2, joiningReplaces},
		{"TheLastWordCounts", 2, lastWordCounts},
		{"TopicsAreApart", 2, presenceTopicsAreApart},
		{"MembersAreBounded", 1, membersAreBounded},
		{"ManyMembers", 2, manyMembers},
		{"ContextIsForTheCall", 1, presenceContext},
		{"WatchersSeeChanges", 3, watchersSeeChanges},
		{"WatchedWithoutAGap", 3, listWithoutAGap},
		{"WatchersAgree", 3, watchersAgree},
		{"WatchersSeeAChangeOnce", 2, changesAreReportedOnce},
		{"WatchedTopicsAreApart", 2, watchedTopicsAreApart},
		{"WatchEndsWithClose", 2, nothingAfterClose},
		{"WatchOutlivesItsContext", 2, watchOutlivesItsContext},
	} {
		t.Run(part.name, func(t *testing.T) {
			all := open(t, part.n)
			if len(all) != part.n {
				t.Fatalf("pubsubtest: open returned %d, asked for %d", len(all), part.n)
			}
			if _, ok := all[0].(pubsub.PresenceWatcher); !ok && strings.Contains(part.name, "Watch") {
				t.Skip("not a pubsub.PresenceWatcher")
			}
			part.run(&presenceSuite{suite: &suite{T: t, prefix: "pubsubtest-" + rand.Text()[:10] + "-"}, all: all})
		})
	}
}

type presenceSuite struct {
	*suite
	all []pubsub.Presence
}

func (s *presenceSuite) join(p pubsub.Presence, topic string, m pubsub.Member) {
	s.Helper()
	if err := p.Join(context.Background(), topic, m); err != nil {
		s.Errorf("rule broken: a working presence accepts members\nJoin of %s to %s: %v", short(m.ID), short(topic), err)
	}
	s.Cleanup(func() { p.Leave(topic, m.ID) })
}

// members are by ID; there is each once.
func (s *presenceSuite) members(p pubsub.Presence, topic string) map[string]pubsub.Member {
	s.Helper()
	list, err := p.Members(context.Background(), topic)
	if err != nil {
		s.broken("a working presence returns its members", "Members of %s: %v", short(topic), err)
	}
	byID := make(map[string]pubsub.Member)
	for _, m := range list {
		if _, twice := byID[m.ID]; twice {
			s.broken("each member is there once", "%s is there twice", short(m.ID))
		}
		byID[m.ID] = m
	}
	return byID
}

func (s *presenceSuite) ids(p pubsub.Presence, topic string) (ids []string) {
	s.Helper()
	for id := range s.members(p, topic) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// become waits until the members are these.
func (s *presenceSuite) become(p pubsub.Presence, topic, rule string, want ...string) {
	s.Helper()
	slices.Sort(want)
	var got []string
	if !poll.Within(timeLimit, func() bool { got = s.ids(p, topic); return slices.Equal(got, want) }) {
		s.broken(rule, "after %v the members of %s are %.200q, not %.200q", timeLimit, short(topic), got, want)
	}
}

const (
	seenAtOnce = "when Join returns, Members has the member, in all processes"
	leftGoes   = "a member is in a topic until it leaves"
)

func joinedIsSeen(s *presenceSuite) {
	topic := s.topic("room")
	if got := s.ids(s.all[0], topic); len(got) != 0 {
		s.broken("a topic without members is empty", "it has %q", got)
	}
	var want []string
	for i := range 9 {
		id := fmt.Sprint("m", i)
		want = append(want, id)
		s.join(s.all[i%len(s.all)], topic, pubsub.Member{ID: id})
		for n, p := range s.all {
			if got := s.ids(p, topic); !slices.Equal(got, want) {
				s.broken(seenAtOnce, "process %d has %q, not %q", n, got, want)
			}
		}
	}
}

func leftIsNotSeen(s *presenceSuite) {
	topic := s.topic("room")
	for i, p := range s.all {
		s.join(p, topic, pubsub.Member{ID: fmt.Sprint("m", i)})
	}
	s.all[0].Leave(topic, "m0")
	if got := s.ids(s.all[0], topic); slices.Contains(got, "m0") {
		s.broken(leftGoes, "its own process still has it after Leave: %q", got)
	}
	for _, p := range s.all {
		s.become(p, topic, leftGoes, "m1", "m2")
	}
	s.all[1].Leave(topic, "m1")
	s.all[2].Leave(topic, "m2")
	for _, p := range s.all {
		s.become(p, topic, leftGoes)
	}
}

func leavingConcernsOne(s *presenceSuite) {
	const rule = "Leave takes one member out of one topic, and does nothing for others"
	topic, other := s.topic("room"), s.topic("other")
	for _, id := range []string{"a", "b"} {
		s.join(s.all[0], topic, pubsub.Member{ID: id})
		s.join(s.all[0], other, pubsub.Member{ID: id})
	}
	s.all[0].Leave(topic, "unknown")
	s.all[0].Leave(s.topic("nowhere"), "a")
	s.all[0].Leave(topic, "a")
	s.all[0].Leave(topic, "a")
	for _, p := range s.all {
		s.become(p, topic, rule, "b")
		s.become(p, other, rule, "a", "b")
	}
}

func membersUnchanged(s *presenceSuite) {
	const rule = "a member is seen as it joined, every field and every byte"
	topic := s.topic("fields")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	members := []pubsub.Member{
		{ID: "bare"},
		{ID: "user", User: "ü😀"},
		{ID: "data", Data: []byte(`{"name":"Ann"}`)},
		{ID: string(all), User: string(all), Data: all},
		{ID: "{*}\n", User: ":\x00", Data: []byte("\r\n")},
		{ID: "same", User: "user", Data: []byte("user")},
		{ID: "full", Data: bytes.Repeat([]byte("x"), 4<<10-4)},
	}
	for _, m := range members {
		s.join(s.all[0], topic, m)
	}
	for n, p := range s.all {
		got := s.members(p, topic)
		for _, want := range members {
			m := got[want.ID]
			if m.ID != want.ID || m.User != want.User || !bytes.Equal(m.Data, want.Data) {
				s.broken(rule, "process %d: joined %.100q, got %.100q", n, fmt.Sprint(want), fmt.Sprint(m))
			}
		}
		if len(got) != len(members) {
			s.broken(rule, "process %d has %d members of %d", n, len(got), len(members))
		}
	}
}

func joiningReplaces(s *presenceSuite) {
	const rule = "a member with the same ID is replaced"
	topic := s.topic("room")
	s.join(s.all[0], topic, pubsub.Member{ID: "m", User: "before", Data: []byte("before")})
	s.join(s.all[0], topic, pubsub.Member{ID: "m", User: "after"})
	for n, p := range s.all {
		if m := s.members(p, topic)["m"]; m.User != "after" || len(m.Data) != 0 {
			s.broken(rule, "process %d has the user %q with the data %q", n, m.User, m.Data)
		}
	}
}

// lastWordCounts joins and leaves in quick succession, from many goroutines.
func lastWordCounts(s *presenceSuite) {
	const rule = "after joining and leaving in quick succession, the last call counts"
	topic := s.topic("room")
	var want []string
	var wg sync.WaitGroup
	for g := range 8 {
		id := fmt.Sprint("m", g)
		if g%2 == 0 {
			want = append(want, id)
		}
		wg.Go(func() {
			p := s.all[g%len(s.all)]
			for range 20 {
				s.join(p, topic, pubsub.Member{ID: id})
				p.Leave(topic, id)
			}
			if g%2 == 0 {
				s.join(p, topic, pubsub.Member{ID: id})
			}
		})
	}
	wg.Wait()
	for _, p := range s.all {
		s.become(p, topic, rule, want...)
	}
}

func presenceTopicsAreApart(s *presenceSuite) {
	const rule = "a topic's name is taken as it is: no patterns, no folding, no trimming, no separators"
	var topics []string
	for _, name := range confusable() {
		topics = append(topics, s.topic(name))
	}
	topics = append(topics, s.prefix+strings.Repeat("x", 256-len(s.prefix)))
	for i, topic := range topics {
		s.join(s.all[i%2], topic, pubsub.Member{ID: strconv.Itoa(i)})
	}
	for i, topic := range topics {
		if got := s.ids(s.all[(i+1)%2], topic); !slices.Equal(got, []string{strconv.Itoa(i)}) {
			s.broken(rule, "the members of %s are %q", short(topic), got)
		}
	}
}

func membersAreBounded(s *presenceSuite) {
	topic := s.topic("room")
	for _, m := range []pubsub.Member{
		{User: "without an ID"},
		{ID: "large", Data: make([]byte, 4<<10)},
		{ID: strings.Repeat("x", 4<<10), User: "x"},
	} {
		if err := s.all[0].Join(context.Background(), topic, m); err == nil {
			s.broken("what Member.Check refuses is no member", "Join takes one of %d bytes with the ID %s", len(m.ID)+len(m.User)+len(m.Data), short(m.ID))
		}
	}
	if err := s.all[0].Join(context.Background(), "", pubsub.Member{ID: "m"}); err == nil {
		s.broken("a topic has a name", "Join takes one without")
	}
	if got := s.ids(s.all[0], topic); len(got) != 0 {
		s.broken("after an error the member is not in the topic", "it has %.200q", got)
	}
}

func manyMembers(s *presenceSuite) {
	const rule = "a topic holds thousands, and a process thousands of topics"
	topic := s.topic("crowd")
	const members = 2000
	parallel(32, members, func(i int) { s.join(s.all[i%2], topic, pubsub.Member{ID: strconv.Itoa(i)}) })
	for n, p := range s.all {
		if got := s.ids(p, topic); len(got) != members {
			s.broken(rule, "process %d has %d of %d", n, len(got), members)
		}
	}
	parallel(32, members, func(i int) { s.join(s.all[i%2], s.topic(strconv.Itoa(i)), pubsub.Member{ID: "m"}) })
	for i := range 20 {
		if got := s.ids(s.all[0], s.topic(strconv.Itoa(i*members/20))); len(got) != 1 {
			s.broken(rule, "a topic has %q", got)
		}
	}
	parallel(32, members-1, func(i int) { s.all[i%2].Leave(topic, strconv.Itoa(i)) })
	for _, p := range s.all {
		s.become(p, topic, leftGoes, strconv.Itoa(members-1))
	}
}

func presenceContext(s *presenceSuite) {
	const rule = "a context applies only to the call: a member stays until it leaves, and a call whose context has ended affects no other"
	topic := s.topic("room")
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.all[0].Join(ctx, topic, pubsub.Member{ID: "m"}); err != nil {
		s.broken("a working presence accepts members", "Join: %v", err)
	}
	defer s.all[0].Leave(topic, "m")
	cancel()
	s.join(s.all[0], topic, pubsub.Member{ID: "later"})
	for i := range 100 { // what the end of a context sets off may run a few calls later
		other := s.topic(strconv.Itoa(i))
		s.join(s.all[0], other, pubsub.Member{ID: "m"})
		s.all[0].Leave(other, "m")
		runtime.Gosched()
		if got := s.ids(s.all[0], topic); len(got) != 2 {
			s.broken(rule, "the members are %q", got)
		}
	}
	if err := s.all[0].Join(ctx, topic, pubsub.Member{ID: "late"}); err == nil {
		s.all[0].Leave(topic, "late")
	}
	s.become(s.all[0], topic, rule, "later", "m")
}
