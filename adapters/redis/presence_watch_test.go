package redis_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/stepclock"
	"github.com/wskit/wskit/pubsub"
)

// seen is what a watcher has been reported.
type seen struct {
	mu       sync.Mutex
	members  map[string]string // data by ID
	log      []string          // +id, -id
	complete int               // complete reports
}

func watchTopic(t *testing.T, p pubsub.PresenceWatcher, topic string) *seen {
	t.Helper()
	s := &seen{members: make(map[string]string)}
	sub, err := p.Watch(ctx, topic, func(r pubsub.PresenceReport) {
		s.mu.Lock()
		defer s.mu.Unlock()
		gone := slices.Clone(r.Left)
		if r.Complete {
			s.complete++
			for id := range s.members {
				if !slices.ContainsFunc(r.Present, func(m pubsub.Member) bool { return m.ID == id }) {
					gone = append(gone, id)
				}
			}
		}
		for _, id := range gone {
			if _, ok := s.members[id]; ok {
				delete(s.members, id)
				s.log = append(s.log, "-"+id)
			}
		}
		for _, m := range r.Present {
			if _, ok := s.members[m.ID]; !ok {
				s.log = append(s.log, "+"+m.ID)
			}
			s.members[m.ID] = string(m.Data)
		}
	})
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	t.Cleanup(func() { _ = sub.Close() })
	return s
}

func (s *seen) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.members))
}

func (s *seen) history() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, " ")
}

func (s *seen) completes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

func (s *seen) become(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a watcher sees %q", want), func() bool { return slices.Equal(s.ids(), want) })
}

// TestWatchedProcess is the child of TestKilledProcessIsReportedOnce.
func TestWatchedProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_TEST_WATCHED")
	if addr == "" {
		t.Skip("run by TestKilledProcessIsReportedOnce")
	}
	p := presenceOn(t, goredis.NewClient(&goredis.Options{Addr: addr}), redis.PresenceOptions{ProcessTimeout: 2 * childTTL})
	join(t, p, "room", "child1")
	join(t, p, "room", "child2")
	fmt.Println("joined")
	select {}
}

// The members of a process that is killed are reported as left, once, to the watchers of
// all other processes; those that stay are not.
func TestKilledProcessIsReportedOnce(t *testing.T) {
	s := redistest.Start(t)
	a, b := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 2 * childTTL}), newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 2 * childTTL})
	join(t, a, "room", "a")
	views := []*seen{watchTopic(t, a, "room"), watchTopic(t, b, "room")}
	child := process.StartTest(t, "TestWatchedProcess", "WSKIT_TEST_WATCHED="+s.Addr, "joined")
	for _, v := range views {
		v.become(t, "a", "child1", "child2")
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	for _, v := range views {
		v.become(t, "a")
	}
	// Whatever the looks of both processes do more, they have done by then.
	before := s.Calls("eval")
	eventually(t, "both look several times", func() bool { return s.Calls("eval") > before+10 })
	for i, v := range views {
		for _, id := range []string{"child1", "child2"} {
			if h := v.history(); strings.Count(h, "+"+id) != 1 || strings.Count(h, "-"+id) != 1 || strings.Contains(h, "-a") {
				t.Errorf("watcher %d: %s", i, h)
			}
		}
	}
}

// When Redis has lost everything, and when its clock is set forward, no member has left: the
// living processes write their members anew, and no watcher is reported anything else.
func TestMembersLostByRedisHaveNotLeft(t *testing.T) {
	for name, disturb := range map[string]func(s *redistest.Server, clock *stepclock.Clock){
		"all is lost":             func(s *redistest.Server, _ *stepclock.Clock) { s.Do("FLUSHALL") },
		"the clock goes forward":  func(_ *redistest.Server, clock *stepclock.Clock) { clock.Step(time.Minute) },
		"the clock goes far":      func(_ *redistest.Server, clock *stepclock.Clock) { clock.Step(time.Hour) },
		"the server starts empty": func(s *redistest.Server, _ *stepclock.Clock) { s.Kill(); s.Run() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait
			s, clock := redistest.StartWithClock(t)
			// A sixth of it is the time to write the members anew on a busy machine.
			opts := redis.PresenceOptions{ProcessTimeout: 12 * time.Second}
			a, b := newPresence(t, s, opts), newPresence(t, s, opts)
			join(t, a, "room", "a")
			join(t, b, "room", "b")
			views := []*seen{watchTopic(t, a, "room"), watchTopic(t, b, "room")}
			var complete []int
			for _, v := range views {
				complete = append(complete, v.completes())
			}
			disturb(s, clock)
			for i, v := range views {
				eventually(t, "the list has been read again and found complete", func() bool { return v.completes() > complete[i] })
				v.become(t, "a", "b")
				if h := v.history(); strings.Contains(h, "-") {
					t.Errorf("watcher %d: %s", i, h)
				}
			}
			join(t, a, "room", "c")
			for _, v := range views {
				v.become(t, "a", "b", "c")
			}
		})
	}
}

// A watcher whose subscription was cut reads the list again: what has changed meanwhile is
// reported, and nothing else.
func TestWatchingWhileTheSubscriptionIsCut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	p := presenceOn(t, client, redis.PresenceOptions{ProcessTimeout: 6 * time.Second})
	other := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 6 * time.Second})
	for _, id := range []string{"leaves", "stays"} {
		join(t, other, "room", id)
	}
	v := watchTopic(t, p, "room")
	v.become(t, "leaves", "stays")
	for round := range 3 {
		proxy.Cut()
		id := fmt.Sprint("m", round)
		join(t, other, "room", id)
		if round == 1 {
			other.Leave("room", "leaves")
		}
		proxy.Mend()
		eventually(t, "the watcher has it", func() bool {
			ids := v.ids()
			return slices.Contains(ids, id) && (round == 0 || !slices.Contains(ids, "leaves"))
		})
	}
	v.become(t, "m0", "m1", "m2", "stays")
	if h := v.history(); strings.Count(h, "-") != 1 || strings.Count(h, "+") != 5 {
		t.Errorf("reported were %s", h)
	}
}

// A change whose message was lost, even the last one, is found.
func TestLostChangeIsFound(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "mute", "on", ">secret", "+@all", "~*", "resetchannels")
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, Username: "mute", Password: "secret", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	mute := presenceOn(t, client, redis.PresenceOptions{ProcessTimeout: 2 * childTTL})
	p := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 2 * childTTL})
	v := watchTopic(t, p, "room")
	join(t, mute, "room", "a")
	v.become(t, "a")
	eventually(t, "the list has been read for the last time", func() bool { return v.completes() >= 2 })
	join(t, mute, "room", "b")
	join(t, p, "room", "c") // its message shows the gap
	v.become(t, "a", "b", "c")
	mute.Leave("room", "a")
	v.become(t, "b", "c")
	if h := v.history(); strings.Count(h, "-") != 1 || strings.Count(h, "+") != 3 {
		t.Errorf("reported were %s", h)
	}
}

// While Redis does not answer, what changes does not pile up without bound, and afterwards
// everything is as it should be.
func TestChangesDuringAnOutageAreBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 4 * time.Second, Timeout: 200 * time.Millisecond})
	other := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 4 * time.Second})
	eventually(t, "joining works", func() bool { return p.Join(ctx, "room", pubsub.Member{ID: "a"}) == nil })
	var wg sync.WaitGroup
	for i := range 1500 {
		wg.Go(func() {
			id := fmt.Sprint("old", i)
			eventually(t, "joining works", func() bool { return p.Join(ctx, "room", pubsub.Member{ID: id}) == nil })
		})
	}
	wg.Wait()
	v := watchTopic(t, other, "room")
	s.Stall()
	for i := range 1500 {
		p.Leave("room", fmt.Sprint("old", i))
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	for i := range 5000 { // each joins, gives up, and leaves
		id := fmt.Sprint("m", i)
		_ = p.Join(over, "room", pubsub.Member{ID: id})
		_ = p.Join(over, fmt.Sprint("room", i), pubsub.Member{ID: id})
	}
	if n := redis.PendingChanges(p, "room"); n > 1100 {
		t.Errorf("%d changes wait", n)
	}
	eventually(t, "topics without members are forgotten", func() bool { return redis.PendingTopics(p) <= 1 })
	s.Resume()
	eventually(t, "joining works", func() bool { return p.Join(ctx, "room", pubsub.Member{ID: "b"}) == nil })
	become(t, other, "room", "a", "b")
	v.become(t, "a", "b")
}

// Members reads and returns no more than it is set to.
func TestMembersAreBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := newPresence(t, s, redis.PresenceOptions{MaxMembers: 10}), newPresence(t, s, redis.PresenceOptions{MaxMembers: 10})
	for i := range 30 {
		join(t, []redis.Presence{a, b}[i%2], "room", fmt.Sprint(i))
	}
	if n := len(ids(t, a, "room")); n != 10 {
		t.Errorf("%d members", n)
	}
	v := watchTopic(t, a, "room")
	if n := len(v.ids()); n > 20 {
		t.Errorf("a watcher read %d members of two processes", n)
	}
	// A list that is cut does not say which members are gone.
	before := v.ids()
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, "the list is read again", func() bool { return len(v.ids()) >= len(before) && v.completes() == 0 })
	if h := v.history(); strings.Contains(h, "-") {
		t.Errorf("reported were %s", h)
	}
}

func TestWatchingOnARing(t *testing.T) {
	t.Parallel()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}})
	defer ring.Close()
	p := redis.NewPresence(ring)
	defer p.Close()
	if _, err := p.Watch(ctx, "room", func(pubsub.PresenceReport) {}); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("Watch: %v", err)
	}
}

func ExamplePresence_Watch() {
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	p := redis.NewPresence(client)
	defer p.Close()
	sub, err := p.Watch(ctx, "room:a", func(r pubsub.PresenceReport) {
		for _, m := range r.Present {
			fmt.Println(m.User, "is here")
		}
	})
	if err != nil {
		fmt.Println("Redis does not answer")
		return
	}
	defer sub.Close()
}
