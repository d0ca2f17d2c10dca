package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

var plenty = pubsub.History{Messages: 100_000, Bytes: 64 << 20, Age: time.Hour}

// errAway says that a transaction has not begun, because the server is away.
var errAway = errors.New("the server is away")

// transact publishes in a transaction, in one of the ways that there are, and commits it or does not.
func transact(
	ctx context.Context, b *postgres.Broker, url, way, topic, event string, commit bool,
) (committed bool, err error) {
	payload := map[string]string{"n": event}
	if way == "database/sql" {
		db, err := sql.Open("pgx", url)
		if err != nil {
			return false, err
		}
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return false, errAway
		}
		if err := b.AppendTx(ctx, postgres.SQLTx(tx), topic, "order.paid", payload, event); err != nil || !commit {
			_ = tx.Rollback()
			return false, err
		}
		return true, tx.Commit()
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false, errAway
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false, errAway
	}
	switch way {
	case "pgx":
		err = b.AppendTx(ctx, tx, topic, "order.paid", payload, event)
	case "function":
		_, err = tx.Exec(
			ctx,
			"select wskit.publish($1, 'order.paid', jsonb_build_object('n', $2::text), 'f' || $2, 100000, 67108864)",
			topic, event,
		)
	case "trigger":
		_, err = tx.Exec(ctx, "insert into orders (topic, n) values ($1, $2)", topic, event)
	}
	if err != nil || !commit {
		_ = tx.Rollback(ctx)
		return false, err
	}
	return true, tx.Commit(ctx)
}

// Every event of a committed transaction comes once, in the order of the history, to clients of two servers, and no
// event of one that was rolled back: published by pgx, database/sql, an SQL function and a trigger, while connections
// of the database are cut and the server is killed.
func TestCommitMeansPublished(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	topics := []string{"orders:1", "orders:2", "orders:3"}
	o := postgres.Options{History: plenty}
	var brokers []*postgres.Broker
	var mu sync.Mutex
	got := make(map[string][]string) // numbers, by client and topic
	var clients []*routertest.Client
	for range 2 {
		b := newBroker(t, s.URL(), o)
		brokers = append(brokers, b)
		r := router.New(router.Options{Backend: adapters.Backend{Broker: b}, HistoryCheck: 100 * time.Millisecond})
		r.History("orders:*", router.HistoryOptions{Messages: plenty.Messages, Bytes: plenty.Bytes, Age: plenty.Age})
		router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
		client := routertest.New(t, r).Dial()
		for _, topic := range topics {
			routertest.ExpectReply[bool](client.Request("join", topic))
		}
		clients = append(clients, client)
	}
	collect := func() {
		mu.Lock()
		defer mu.Unlock()
		for process, client := range clients {
			for _, f := range client.Frames() {
				var e struct {
					Meta    struct{ Topic string }
					Payload struct{ N string }
				}
				if f.Type == "order.paid" && json.Unmarshal(f.Raw, &e) == nil {
					name := fmt.Sprint("server ", process, " ", e.Meta.Topic)
					got[name] = append(got[name], e.Payload.N)
				}
			}
		}
	}
	s.Do("create table orders (topic text, n text)")
	s.Do(`create function announce() returns trigger language plpgsql as $$ begin
		perform wskit.publish(new.topic, 'order.paid', jsonb_build_object('n', new.n), 't' || new.n, 100000, 67108864); return new; end $$`)
	s.Do("create trigger announce after insert on orders for each row execute function announce()")

	const writers, rounds = 6, 60
	ways := []string{"pgx", "database/sql", "function", "trigger"}
	committed, undone, unknown := make(map[string]string), make(map[string]bool), make(map[string]bool)
	var writing sync.WaitGroup
	done := make(chan struct{}, writers*rounds)
	for writer := range writers {
		writing.Go(func() {
			for round := range rounds {
				n, topic := fmt.Sprint(writer, "-", round), topics[rand.IntN(len(topics))]
				commit := rand.IntN(3) > 0
				var ok bool
				var err error
				poll.Until(t, "a transaction to begin", func() bool {
					ok, err = transact(
						t.Context(), brokers[writer%2], s.URL(), ways[rand.IntN(len(ways))], topic, n, commit,
					)
					return err != errAway
				})
				mu.Lock()
				switch {
				case ok && err == nil:
					committed[n] = topic
				case ok:
					unknown[n] = true
				default:
					undone[n] = true
				}
				mu.Unlock()
				done <- struct{}{}
			}
		})
	}
	await := func(n int) {
		for range n {
			<-done
		}
	}
	const cuts, kills = 8, 2
	for i := range cuts + kills {
		await(writers * rounds / (cuts + kills + 1))
		if i%5 == 4 {
			s.Kill()
			s.Run()
		} else {
			s.Do("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and random() < 0.5")
		}
	}
	writing.Wait()
	if len(committed) < writers*rounds/3 || len(undone) < writers*rounds/6 {
		t.Fatalf("%d transactions were committed, and %d not", len(committed), len(undone))
	}
	poll.Until(t, "the last events", func() bool {
		n := 0
		collect()
		mu.Lock()
		defer mu.Unlock()
		for _, all := range got {
			n += len(all)
		}
		return n >= 2*len(committed)
	})
	for _, topic := range topics {
		var inLog []string
		page, err := brokers[0].Read(t.Context(), topic, plenty, pubsub.ReadOptions{Messages: 10_000, Bytes: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			var e struct{ Payload struct{ N string } }
			if err := json.Unmarshal(m.Frame, &e); err != nil {
				t.Fatalf("%v: %s", err, m.Frame)
			}
			inLog = append(inLog, e.Payload.N)
		}
		for n, of := range committed {
			if of == topic && !slices.Contains(inLog, n) {
				t.Errorf("%s is committed and not in the history of %s", n, topic)
			}
		}
		for process := range 2 {
			name := fmt.Sprint("server ", process, " ", topic)
			equal := func() bool {
				collect()
				mu.Lock()
				defer mu.Unlock()
				return slices.Equal(got[name], inLog)
			}
			if !poll.Within(poll.Guard, equal) {
				t.Errorf("%s: the client got %q, and the history is %q", name, got[name], inLog)
			}
		}
		for i, n := range inLog {
			if undone[n] || slices.Contains(inLog[:i], n) {
				t.Errorf("%s was rolled back, or is there twice", n)
			}
		}
	}
}

// A transaction that has published and stays open holds up nothing that is published to other topics.
func TestALongTransactionDelaysNoOtherTopic(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := newBroker(t, s.URL(), postgres.Options{})
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan pubsub.Message, 100)
	for _, topic := range []string{"a", "b"} {
		if _, err := b.Subscribe(t.Context(), topic, func(m pubsub.Message) { got <- m }); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AppendTx(t.Context(), tx, "a", "said", 1, ""); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := b.Append(t.Context(), pubsub.Message{Topic: "b", Frame: []byte("{}")}, plenty, ""); err != nil {
			t.Fatal(err)
		}
		if m := poll.Receive(t, got, "a message of the other topic"); m.Topic != "b" || m.Lost {
			t.Fatalf("%+v", m)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := poll.Receive(t, got, "the message of the transaction"); m.Topic != "a" ||
		string(m.Frame) != `{"meta":{"topic":"a"},"type":"said","payload":1}` {
		t.Errorf("%+v %s", m, m.Frame)
	}
}

// Several processes that begin at once make the tables once. What cannot work fails, and says why, without the
// password.
func TestOpening(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	var opening sync.WaitGroup
	for range 5 {
		opening.Go(func() {
			b, err := postgres.Open(t.Context(), s.URL(), postgres.Options{Schema: "chat_1", Timeout: poll.Guard})
			if err != nil {
				t.Error(err)
				return
			}
			_ = b.Close()
		})
	}
	opening.Wait()
	s.Do("create user reader password 'hunter2'")
	reader := strings.Replace(s.URL(), "postgres@", "reader:hunter2@", 1)
	for url, says := range map[string]string{
		reader:                               "permission denied",
		"postgres://x:hunter2@[::1":          "cannot be read",
		"postgres://x:hunter2@127.0.0.1:1/x": "refused",
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Options{Timeout: poll.Guard})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, o := range []postgres.Options{{Schema: "x; drop"}, {Timeout: -1}, {MaxConns: -1}, {History: pubsub.History{Age: -1}}} {
		if _, err := postgres.Open(t.Context(), s.URL(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
