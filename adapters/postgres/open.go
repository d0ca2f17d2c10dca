// Package postgres keeps what a router shares in PostgreSQL 15 or newer, for several processes: COMMIT means published.
//
//	backend, err := postgres.Open(ctx, "postgres://app@db/app")
//	…
//	r := router.New(router.Options{Backend: backend})
//
// What is published to a topic with history is a row. [Broker.AppendTx] publishes in a transaction of the application:
// when it commits, the event is in the history and on its way, and when it is rolled back, nothing was ever there.
// Triggers, and programs in any language, do the same by the SQL function publish. Limits, places, members of topics
// and the answers of idempotent messages are there as well, with the same promises as on Redis.
//
// It needs no superuser, no extension and no logical replication: the rights to create a schema, or that schema and its
// tables (see [Options.SQL]). A connection that stays open gets a notification of each commit (LISTEN), so a pooler in
// transaction mode in between does not work; Open finds that out.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/pubsub"
)

// Options configure what [Open] makes. The zero value works.
type Options struct {
	// Schema is that of the tables and functions, which Open makes. Several applications of a database have one
	// each. Small letters, digits and '_', at most 40.
	//
	// Default: "wskit".
	Schema string
	// Timeout bounds each call, in this process and in the server.
	//
	// Default: 5 s.
	Timeout time.Duration
	// MaxConns is how many connections are used at most, besides the one that listens and those of decisions.
	//
	// Default: 8.
	MaxConns int
	// MaxDecisionConns is how many more decide on limits, which so never wait for what the other parts do.
	//
	// Default: 4.
	MaxDecisionConns int
	// MaxBuffered bounds what waits for a subscriber, in bytes. What does not fit is lost, and reported as such.
	//
	// Default: 16 MiB.
	MaxBuffered int
	// History is what is kept of topics to which [Broker.AppendTx] publishes: as router.HistoryOptions of these topics.
	//
	// Default: 1,000 messages, 1 MiB and an hour, as those of the router.
	History pubsub.History
	// MaxMembers is how many members of a topic are listed at most, by Members and to those who watch them. Which of
	// more is not defined. Each later change is reported.
	//
	// Default: 10,000.
	MaxMembers int
	// MaxAnswers is how many keys of idempotency one subject may have, and MaxAnswerBytes of how many bytes their
	// answers are together. More are refused with idempotency.ErrFull.
	//
	// Default: 1,000 and 4 MiB.
	MaxAnswers, MaxAnswerBytes int
	// ProcessTimeout is how long a process that was killed counts as running: see adapters.Backend. From 1 s to 10 min.
	//
	// Default: 15 s.
	ProcessTimeout time.Duration
	// Logger gets a line when a part fails, and another when it works again.
	//
	// Default: slog.Default().
	Logger *slog.Logger
	// OnOutage is called at the same times, for the components "broker", which is the connection that listens, and
	// "presence", by one goroutine each. It may block.
	//
	// Default: none.
	OnOutage func(errors.Outage)
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func (o Options) withDefaults() (Options, error) {
	o.Schema = cmp.Or(o.Schema, "wskit")
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.MaxConns, o.MaxDecisionConns = cmp.Or(o.MaxConns, 8), cmp.Or(o.MaxDecisionConns, 4)
	o.MaxBuffered = cmp.Or(o.MaxBuffered, 16<<20)
	o.MaxMembers = cmp.Or(o.MaxMembers, 10_000)
	o.MaxAnswers, o.MaxAnswerBytes = cmp.Or(o.MaxAnswers, 1000), cmp.Or(o.MaxAnswerBytes, 4<<20)
	o.History.Messages, o.History.Bytes = cmp.Or(o.History.Messages, 1000), cmp.Or(o.History.Bytes, 1<<20)
	o.History.Age = cmp.Or(o.History.Age, time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	var err error
	if o.ProcessTimeout, err = leasecheck.Timeout("postgres", "Options", o.ProcessTimeout); err != nil {
		return o, err
	}
	if !schemaName.MatchString(o.Schema) {
		return o, fmt.Errorf("postgres: Options.Schema is %q; use small letters, digits and _, at most 40", o.Schema)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(o.Timeout)}, {"MaxConns", int64(o.MaxConns)}, {"MaxDecisionConns", int64(o.MaxDecisionConns)},
		{"MaxBuffered", int64(o.MaxBuffered)}, {"MaxMembers", int64(o.MaxMembers)}, {"MaxAnswers", int64(o.MaxAnswers)},
		{"MaxAnswerBytes", int64(o.MaxAnswerBytes)},
	} {
		if f.value < 0 {
			return o, fmt.Errorf("postgres: Options.%s is negative; use 0 for the default", f.name)
		}
	}
	return o, o.History.Check()
}

// Open connects to a database, makes the tables if there are none, and listens. It makes all that a router keeps there:
// limits, topics with and without history, presence, the answers of idempotent messages, and the secret of tickets. The
// Broker is a [*Broker]. Router.Serve closes it; otherwise call its Close after Router.Shutdown.
//
// It fails if an option makes no sense, the database is not reached, the user lacks a right, or a pooler takes the
// connection away that listens. The error has nothing of the password.
func Open(ctx context.Context, url string, options ...Options) (adapters.Backend, error) {
	o := given.Must("postgres", "Open", options)
	o, err := o.withDefaults()
	if err != nil {
		return adapters.Backend{}, err
	}
	d, err := openDatabase(ctx, url, o)
	if err != nil {
		return adapters.Backend{}, err
	}
	broker, presence := newBroker(d), newPresence(d)
	if err := d.start(ctx); err != nil {
		return adapters.Backend{}, errors.Join(err, d.close())
	}
	presence.start()
	d.done.Go(d.sweep)
	return adapters.Backend{
		Limits: newStore(d, nil), Broker: broker, Presence: presence, Idempotency: answers{d},
		Secret: d.secret, Check: d.check,
		Close: func() error {
			presence.close() // members leave while the database still works
			return d.close()
		},
		ProcessTimeout: o.ProcessTimeout, Shared: true,
	}, nil
}

const secretBytes = 32

// secret returns what is under a name, which it makes if there is nothing.
func (d *database) secret(ctx context.Context, name string) (value []byte, err error) {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	err = d.call(ctx, "reading a secret", func(ctx context.Context) error {
		return d.pool.QueryRow(ctx, d.sql.secret, name, random).Scan(&value)
	})
	return value, err
}

// check returns nil if the server takes a write, and the connection listens.
func (d *database) check(ctx context.Context) error {
	return d.call(ctx, "checking", func(ctx context.Context) error {
		if _, err := d.pool.Exec(ctx, d.sql.check); err != nil {
			return err
		}
		return d.awaitUp(ctx)
	})
}
