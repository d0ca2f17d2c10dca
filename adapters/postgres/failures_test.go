package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Connections are cut after each number of bytes. What is appended, and repeated with its id until it is acknowledged,
// is in the log once and in order. What is charged is at least what was acknowledged, and no more than what was asked
// for.
func TestConnectionsCutAtEachByte(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	near, far := open(t, s.URL(), postgres.Options{}), open(t, s.URLAt(proxy.Addr), postgres.Options{})
	log := far.Broker.(*postgres.Broker)
	got := make(chan pubsub.Message, 10_000)
	if _, err := log.Subscribe(t.Context(), "cut", func(m pubsub.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	const capacity, first, last, step = 10_000, 1, 2500, 23
	var want []string
	asked, acknowledged := int64(0), int64(0)
	for n := int64(first); n < last; n += step {
		frame := fmt.Sprintf(`{"n":%d}`, n)
		want = append(want, frame)
		proxy.CutAfter(n)
		poll.Until(t, "a message to be acknowledged", func() bool {
			_, err := log.Append(t.Context(), pubsub.Message{Topic: "cut", Frame: []byte(frame)}, plenty, frame)
			return err == nil
		})
		proxy.CutAfter(n)
		asked++
		if d, err := far.Limits.Take(t.Context(), []byte("k"), hourly(capacity), 1); err == nil && d.Allowed {
			acknowledged++
		}
		proxy.Mend()
	}
	page, err := near.Broker.(pubsub.Log).Read(
		t.Context(), "cut", plenty, pubsub.ReadOptions{Messages: 1000, Bytes: 1 << 20},
	)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, m := range page.Messages {
		kept = append(kept, string(m.Frame))
	}
	if !slices.Equal(kept, want) {
		t.Errorf("the log has %q, want %q", kept, want)
	}
	var delivered []string
	for len(delivered) < len(want) {
		if m := poll.Receive(t, got, "a message"); !m.Lost {
			delivered = append(delivered, string(m.Frame))
		}
	}
	if !slices.Equal(delivered, want) {
		t.Errorf("the subscriber got %q, want %q", delivered, want)
	}
	d, err := near.Limits.Take(t.Context(), []byte("k"), hourly(capacity), 1)
	if err != nil {
		t.Fatal(err)
	}
	if used := capacity - d.Remaining - 1; used < acknowledged || used > asked || acknowledged == 0 {
		t.Errorf("%d units are used; %d were acknowledged, %d asked for", used, acknowledged, asked)
	}
}

// Transactions that PostgreSQL ends because they conflict with others may be repeated with the same ids: each event is
// published once.
func TestConflictsMayBeRepeated(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := newBroker(t, s.URL(), postgres.Options{})
	s.Do("create table account (balance int)")
	s.Do("insert into account values (0)")
	const writers, each = 4, 10
	var conflicts sync.Map
	var work sync.WaitGroup
	for writer := range writers {
		work.Go(func() {
			conn, err := pgx.Connect(t.Context(), s.URL())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(context.Background()) }()
			topics := []string{"even", "odd"}
			if writer%2 == 1 { // in the other order: PostgreSQL ends one of two that wait for each other
				slices.Reverse(topics)
			}
			for i := range each {
				id := fmt.Sprint(writer, "-", i)
				poll.Until(t, "a transaction to be committed", func() bool {
					err := pgx.BeginTxFunc(
						t.Context(),
						conn,
						pgx.TxOptions{IsoLevel: pgx.Serializable},
						func(tx pgx.Tx) error {
							var balance int
							if err := tx.QueryRow(t.Context(), "select balance from account").Scan(&balance); err != nil {
								return err
							}
							if _, err := tx.Exec(t.Context(), "update account set balance = $1", balance+1); err != nil {
								return err
							}
							for _, topic := range topics {
								if err := b.AppendTx(t.Context(), tx, topic, "changed", id, id); err != nil {
									return err
								}
							}
							return nil
						},
					)
					if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
						conflicts.Store(refused.Code, true)
						return false
					}
					if err != nil {
						t.Error(err)
					}
					return true
				})
			}
		})
	}
	work.Wait()
	for _, topic := range []string{"even", "odd"} {
		page, err := b.Read(t.Context(), topic, plenty, pubsub.ReadOptions{Messages: 1000, Bytes: 1 << 20})
		if err != nil || len(page.Messages) != writers*each {
			t.Errorf("%d events of %s, %v", len(page.Messages), topic, err)
		}
	}
	if n := s.Do("select 1 from account where balance = $1", writers*each); n != 1 {
		t.Error("the balance is not the number of events")
	}
	if _, ok := conflicts.Load("40001"); !ok {
		t.Error("no transaction was in conflict")
	}
}

// A pooler in transaction mode forgets LISTEN: Open says so. One in session mode works.
func TestPoolers(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	_ = open(t, s.URL(), postgres.Options{}) // makes the tables
	addr := s.StartPooler(t, "transaction")
	poll.Until(t, "the pooler to be recognised", func() bool { // another step may be the one that is late
		_, err := postgres.Open(t.Context(), s.URLAt(addr), postgres.Options{Timeout: processTimeout})
		return err != nil && strings.Contains(err.Error(), "pooler")
	})
	b := newBroker(t, s.URLAt(s.StartPooler(t, "session")), postgres.Options{})
	got := make(chan pubsub.Message, 1)
	if _, err := b.Subscribe(t.Context(), "x", func(m pubsub.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), pubsub.Message{Topic: "x", Frame: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	poll.Receive(t, got, "a message through a pooler in session mode")
}

// The clock of the server is stepped back and forth while it decides.
func TestStoreUnderAClockThatIsStepped(t *testing.T) {
	t.Parallel()
	s, clock := pgtest.StartWithClock(t)
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		return limittest.Subject{Store: open(t, s.URL(), postgres.Options{}).Limits, Step: clock.Step, Steps: 12}
	})
}

// TestReadingProcess is the other process of the test below: it reads and appends, always.
func TestReadingProcess(t *testing.T) {
	url := os.Getenv("WSKIT_TEST_POSTGRES_READS")
	if url == "" {
		t.Skip("run by TestAStoppedProcessHoldsUpNothing")
	}
	var backend adapters.Backend
	poll.Until(t, "the backend to be opened within its Timeout", func() (opened bool) {
		var err error
		backend, err = postgres.Open(t.Context(), url, postgres.Options{Timeout: processTimeout})
		return err == nil
	})
	b := backend.Broker.(*postgres.Broker)
	for n := 0; ; n++ {
		_, _ = b.Read(t.Context(), "x", plenty, pubsub.ReadOptions{Messages: 10, Bytes: 1 << 20})
		_, _ = b.Append(t.Context(), pubsub.Message{Topic: "x", Frame: []byte("{}")}, plenty, "")
		if n == 10 {
			fmt.Println("\nreading")
		}
	}
}

// A process that stands still in the middle of anything holds up no topic.
func TestAStoppedProcessHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := newBroker(t, s.URL(), postgres.Options{})
	child := process.StartTest(t, "TestReadingProcess", "WSKIT_TEST_POSTGRES_READS="+s.URL(), "reading")
	for range 30 {
		if err := process.Stop(child.Process); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Append(t.Context(), pubsub.Message{Topic: "x", Frame: []byte("{}")}, plenty, ""); err != nil {
			t.Fatalf("while another process stands still: %v", err)
		}
		if err := process.Continue(child.Process); err != nil {
			t.Fatal(err)
		}
	}
}

// writableURL is that of the database of the server that takes writes.
func writableURL(one, other *pgtest.Server) string {
	return one.URLAt(one.Addr+","+other.Addr) + "&target_session_attrs=read-write"
}

// After a failover to a replica that was behind, what was acknowledged and is missing is reported to clients, and what
// is published then arrives.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	replica := primary.Replica(t)
	url := writableURL(primary, replica)
	backend := open(t, url, postgres.Options{ProcessTimeout: processTimeout})
	r := router.New(router.Options{Backend: backend, HistoryCheck: 100 * time.Millisecond})
	r.History("orders:*")
	paid := router.Declare[int](r, "paid")
	router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
	c := routertest.New(t, r).Dial()
	routertest.ExpectReply[bool](c.Request("join", "orders:1"))
	publish := func(n int) {
		t.Helper()
		poll.Until(t, "an event to be published", func() bool {
			return paid.Publish(t.Context(), "orders:1", n, router.PublishOptions{ID: fmt.Sprint(n)}) == nil
		})
	}
	publish(1)
	replica.Until(t, "the replica to have the event", "select 1 from wskit.messages")
	replica.Kill()
	publish(2) // which the replica never gets
	for n := 1; n <= 2; n++ {
		if got := routertest.ExpectEvent[int](c, "paid"); got != n {
			t.Errorf("event %d comes in place of %d", got, n)
		}
	}
	primary.Kill()
	replica.Run()
	replica.Promote()
	publish(3)
	if reset := c.ExpectAny("$ws:reset"); !strings.Contains(string(reset.Raw), `"rewound"`) {
		t.Errorf("the loss is reported as %s", reset)
	}
	poll.Until(t, "the backend to work", func() bool { return backend.Check(t.Context()) == nil })
	page, err := r.ReadHistory(t.Context(), "orders:1", router.HistoryQuery{})
	if err != nil || len(page.Messages) != 2 || string(page.Messages[1].Payload) != "3" {
		t.Errorf("the history is %+v, %v", page, err)
	}
}

// A full disk fails calls, and loses nothing that was acknowledged: when there is room again, all of it is there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := pgtest.StartSmall(t, 20)
	b := newBroker(t, s.URL(), postgres.Options{})
	random := make([]byte, 7000) // which is not compressed
	_, _ = rand.Read(random)
	acknowledged, m := 0, pubsub.Message{Topic: "x", Frame: random}
	var err error
	for acknowledged < 10_000 && err == nil {
		if _, err = b.Append(t.Context(), m, pubsub.History{Messages: 100_000, Bytes: 1 << 30, Age: time.Hour}, ""); err == nil {
			acknowledged++
		}
	}
	if err == nil || acknowledged < 100 {
		t.Fatalf("%d messages fit: %v", acknowledged, err)
	}
	s.Kill()
	s.Grow()
	s.Run()
	poll.Until(t, "a message to be appended", func() bool {
		_, err := b.Append(t.Context(), m, pubsub.History{Messages: 100_000, Bytes: 1 << 30, Age: time.Hour}, "")
		return err == nil
	})
	heads, err := b.Heads(t.Context(), []string{"x"})
	if err != nil || heads[0].Offset != uint64(acknowledged)+1 {
		t.Errorf("%d messages were acknowledged, and the log has %d, %v", acknowledged+1, heads[0].Offset, err)
	}
}
