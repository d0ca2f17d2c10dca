package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

const processTimeout = 2 * time.Second

// gate is a limit of one place, which its process renews while it lives.
func gate(b adapters.Backend) *limit.ConcurrencyLimit {
	return limit.NewConcurrencyLimit(b.Limits, limit.ConcurrencyOptions{
		Max: 1, LeaseTime: processTimeout, Limiter: limit.Options{Name: "gate", OnFailure: limit.FailClosed, Timeout: poll.Guard},
	})
}

var (
	claim = idempotency.Claim{Subject: "s", Key: "k", Digest: "d", Execution: "child"}
)

// TestHoldingProcess is the other process of the tests below: it holds one of everything.
func TestHoldingProcess(t *testing.T) {
	url := os.Getenv("WSKIT_TEST_POSTGRES")
	if url == "" {
		t.Skip("run by the tests below")
	}
	b := open(t, url, postgres.Options{ProcessTimeout: processTimeout})
	if _, err := b.Broker.Subscribe(t.Context(), "topic", func(pubsub.Message) {}); err != nil {
		t.Fatal(err)
	}
	if err := b.Presence.Join(t.Context(), "room", pubsub.Member{ID: "child", User: "ann", Data: []byte(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Idempotency.Begin(t.Context(), claim, processTimeout); err != nil {
		t.Fatal(err)
	}
	if _, d, err := gate(b).Acquire(t.Context(), limit.KeyOf("x")); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	fmt.Println("\nholding")
	select {}
}

// room collects what a watch of the members of a topic reports.
type room struct {
	mu      sync.Mutex
	members map[string]bool
	changed chan struct{}
}

func watchRoom(t *testing.T, b adapters.Backend) *room {
	t.Helper()
	r := &room{members: make(map[string]bool), changed: make(chan struct{}, 1)}
	watch, err := b.Presence.(pubsub.PresenceWatcher).Watch(t.Context(), "room", func(report pubsub.PresenceReport) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if report.Complete {
			clear(r.members)
		}
		for _, m := range report.Present {
			r.members[m.ID] = true
		}
		for _, id := range report.Left {
			delete(r.members, id)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	return r
}

// expect waits until a watch and a list have these members.
func (r *room) expect(t *testing.T, b adapters.Backend, want ...string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the members to be %q", want), func() bool {
		listed, err := b.Presence.Members(t.Context(), "room")
		ids := make([]string, 0, len(listed))
		for _, m := range listed {
			ids = append(ids, m.ID)
		}
		slices.Sort(ids)
		r.mu.Lock()
		defer r.mu.Unlock()
		watched := make([]string, 0, len(r.members))
		for id := range r.members {
			watched = append(watched, id)
		}
		slices.Sort(watched)
		return err == nil && slices.Equal(ids, want) && slices.Equal(watched, want)
	})
}

func receivers(t *testing.T, b adapters.Backend) int {
	t.Helper()
	n, err := b.Broker.(pubsub.ReceiverCounter).PublishCounted(
		t.Context(), pubsub.Message{Topic: "topic", Frame: []byte("{}")},
	)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What a process has ends when it is killed: its places, members, claims and subscriptions. What it has while it runs
// is there for the others.
func TestAKilledProcess(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := open(t, s.URL(), postgres.Options{ProcessTimeout: processTimeout})
	child := process.StartTest(t, "TestHoldingProcess", "WSKIT_TEST_POSTGRES="+s.URL(), "holding")
	room, places := watchRoom(t, b), gate(b)
	another := claim
	another.Execution = "parent"
	room.expect(t, b, "child")
	if _, d, err := places.Acquire(t.Context(), limit.KeyOf("x")); d.Allowed || err != nil {
		t.Errorf("a place that is taken was given: %+v, %v", d, err)
	}
	s.Do("insert into wskit.receivers values (md5('topic'), 1, 1)") // one whose session is over
	if n := receivers(t, b); n != 1 {
		t.Errorf("%d receivers", n)
	}
	if state, _, err := b.Idempotency.Begin(t.Context(), another, time.Second); state != idempotency.Running &&
		state != idempotency.Claimed ||
		err != nil {
		t.Errorf("the claim is %v, %v", state, err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	poll.Until(t, "the receiver to be gone", func() bool { return receivers(t, b) == 0 })
	poll.Until(t, "the place to be free", func() bool {
		_, d, err := places.Acquire(t.Context(), limit.KeyOf("x"))
		return err == nil && d.Allowed
	})
	poll.Until(t, "the claim to be over", func() bool {
		state, _, err := b.Idempotency.Begin(t.Context(), another, time.Minute)
		return err == nil && state == idempotency.Claimed
	})
	room.expect(t, b)
}

// A process that stood still for longer than its ProcessTimeout is a member again when it goes on.
func TestAStoppedProcess(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := open(t, s.URL(), postgres.Options{ProcessTimeout: processTimeout})
	child := process.StartTest(t, "TestHoldingProcess", "WSKIT_TEST_POSTGRES="+s.URL(), "holding")
	room := watchRoom(t, b)
	room.expect(t, b, "child")
	if err := process.Stop(child.Process); err != nil {
		t.Fatal(err)
	}
	room.expect(t, b)
	if err := process.Continue(child.Process); err != nil {
		t.Fatal(err)
	}
	room.expect(t, b, "child")
}

// After the server was killed all is there again: what processes hold, because they write it anew, and what was
// acknowledged, because it was on the disk.
func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a, b := open(t, s.URL(), postgres.Options{ProcessTimeout: processTimeout}), open(t, s.URL(), postgres.Options{})
	room := watchRoom(t, b)
	for id, at := range map[string]adapters.Backend{"ann": a, "bob": b} {
		if err := at.Presence.Join(t.Context(), "room", pubsub.Member{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := a.Idempotency.Begin(t.Context(), claim, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := a.Idempotency.Finish(t.Context(), claim, []byte("paid"), time.Hour); err != nil {
		t.Fatal(err)
	}
	room.expect(t, b, "ann", "bob")
	s.Kill()
	s.Run()
	room.expect(t, b, "ann", "bob")
	if err := a.Presence.Join(t.Context(), "room", pubsub.Member{ID: "cat"}); err != nil {
		t.Fatal(err)
	}
	a.Presence.Leave("room", "ann")
	room.expect(t, b, "bob", "cat")
	again := claim
	again.Execution = "another"
	var answer []byte
	poll.Until(t, "the answer to be read", func() bool {
		var state idempotency.State
		var err error
		state, answer, err = b.Idempotency.Begin(context.Background(), again, time.Minute)
		return err == nil && state == idempotency.Answered
	})
	if string(answer) != "paid" {
		t.Errorf("the answer is %q", answer)
	}
}

// A member that has left and joined again stays, although its leaving is written later.
func TestJoiningAnew(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a, b := open(t, s.URL(), postgres.Options{}), open(t, s.URL(), postgres.Options{})
	join := func(topic, id string) {
		t.Helper()
		if err := a.Presence.Join(t.Context(), topic, pubsub.Member{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	join("slow", "cat")
	join("room", "ann")
	left := make(chan string, 10)
	watch, err := b.Presence.(pubsub.PresenceWatcher).Watch(t.Context(), "room", func(r pubsub.PresenceReport) {
		for _, id := range r.Left {
			left <- id
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	tx := lock(t, s, "select from wskit.places where topic = 'slow' for update")
	a.Presence.Leave("slow", "cat")
	s.Until(
		t, "the leaving of cat to wait",
		"select from pg_stat_activity where wait_event_type = 'Lock' and query like '%leave%'",
	)
	a.Presence.Leave("room", "ann")
	join("room", "ann")
	join("room", "bob")
	a.Presence.Leave("room", "bob")
	tx()
	if id := poll.Receive(t, left, "a member to leave"); id != "bob" {
		t.Errorf("%s left, and had joined again", id)
	}
}

// lock holds what a statement locks until the function is called.
func lock(t *testing.T, s *pgtest.Server, statement string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "begin; "+statement); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := conn.Exec(t.Context(), "rollback"); err != nil {
			t.Fatal(err)
		}
	}
}
