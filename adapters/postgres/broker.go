// Package postgres keeps the topics of a router in PostgreSQL 15 or newer, for several processes: COMMIT means published.
//
//	broker, err := postgres.NewBroker(ctx, "postgres://app@db/app", postgres.Options{})
//	…
//	r := router.New(router.Options{Backend: adapters.Backend{Broker: broker, Shared: true, …}})
//
// What is published to a topic with history is a row. [Broker.AppendTx] publishes in a transaction of the application: when it
// commits, the event is in the history and on its way, and when it is rolled back, nothing was ever there. Triggers, and
// programs in any language, do the same by the SQL function publish.
//
// It needs no superuser, no extension and no logical replication: the rights to create a schema, or that schema and its
// tables (see Options.Schema). A connection that stays open gets a notification of each commit (LISTEN), so a pooler in
// transaction mode in between does not work; NewBroker finds that out.
package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// Options configure a [Broker].
type Options struct {
	// Schema is that of the tables and functions, which NewBroker makes. Several applications of a database have one
	// each. Small letters, digits and '_', at most 40.
	//
	// Default: "wskit".
	Schema string
	// Timeout bounds each call.
	//
	// Default: 5 s.
	Timeout time.Duration
	// MaxConns is how many connections are used at most, besides the one that listens.
	//
	// Default: 8.
	MaxConns int
	// MaxBuffered bounds what waits for a subscriber, in bytes. What does not fit is lost, and reported as such.
	//
	// Default: 16 MiB.
	MaxBuffered int
	// History is what is kept of topics to which [Broker.AppendTx] publishes: as router.HistoryOptions of these topics.
	//
	// Default: 1,000 messages, 1 MiB and an hour, as those of the router.
	History pubsub.History
	// Logger gets a line when the connection that listens is lost, and when it works again.
	//
	// Default: slog.Default().
	Logger *slog.Logger
	// OnOutage is called at the same times, for the component "broker", by one goroutine. It may block.
	//
	// Default: none.
	OnOutage func(errors.Outage)
}

// Broker is a [pubsub.Log] in PostgreSQL. Its methods may be called from any goroutine.
type Broker struct {
	o      Options
	sql    queries
	pool   *pgxpool.Pool
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	fails  outage.Reporter // of the connection that listens
	other  sync.Once       // a notification of another program was logged

	mu      sync.Mutex
	topics  map[string]*topic // by the md5 of the name, which notifications have
	dirty   map[*topic]bool   // whose log may have more
	fences  map[string]chan struct{}
	reading chan struct{} // holds a token when some are dirty
	up      chan struct{} // closed while the connection listens
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func (o Options) withDefaults() (Options, error) {
	o.Schema = cmp.Or(o.Schema, "wskit")
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.MaxConns = cmp.Or(o.MaxConns, 8)
	o.MaxBuffered = cmp.Or(o.MaxBuffered, 16<<20)
	o.History.Messages, o.History.Bytes = cmp.Or(o.History.Messages, 1000), cmp.Or(o.History.Bytes, 1<<20)
	o.History.Age = cmp.Or(o.History.Age, time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if err := o.History.Check(); err != nil {
		return o, err
	}
	switch {
	case !schemaName.MatchString(o.Schema):
		return o, fmt.Errorf("postgres: Options.Schema is %q; use small letters, digits and _, at most 40", o.Schema)
	case o.Timeout < 0 || o.MaxConns < 1 || o.MaxBuffered < 1:
		return o, errors.New("postgres: Options.Timeout, MaxConns or MaxBuffered is negative; use 0 for the default")
	}
	return o, nil
}

// NewBroker connects to a database, makes the tables if there are none, and listens. It fails if an option makes no sense,
// the database is not reached, the user lacks a right, or a pooler takes the connection away that listens.
func NewBroker(ctx context.Context, url string, o Options) (*Broker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("postgres: the URL cannot be read; use the form postgres://user@host:port/database") // it may have a password
	}
	config.MaxConns = int32(o.MaxConns)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	b := &Broker{
		o: o, sql: queriesOf(o.Schema), pool: pool, topics: make(map[string]*topic), dirty: make(map[*topic]bool),
		fences: make(map[string]chan struct{}), reading: make(chan struct{}, 1), up: make(chan struct{}),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.fails = outage.Reporter{
		Component: "broker", Name: o.Schema, Log: o.Logger, Hook: o.OnOutage,
		Failing: "postgres: the connection that listens is lost; trying again", Working: "postgres: the connection listens again",
	}
	first, err := b.open(ctx)
	if err != nil {
		pool.Close()
		return nil, err
	}
	b.done.Go(func() { b.listen(first) })
	b.done.Go(b.read)
	return b, nil
}

// open makes the tables, and a connection that listens.
func (b *Broker) open(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	if err := b.migrate(ctx); err != nil {
		return nil, fmt.Errorf("postgres: the tables cannot be made: %w", err)
	}
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	// A pooler in transaction mode forgets LISTEN: then this does not come back.
	if _, err := b.pool.Exec(ctx, b.sql.notify, b.channel(), "open"); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), conn.Close(ctx))
	}
	if _, err := conn.WaitForNotification(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: a notification does not come back, as through a pooler in transaction mode; "+
			"use the database itself, or a pooler in session mode: %w", err), conn.Close(ctx))
	}
	return conn, nil
}

func (b *Broker) channel() string { return b.o.Schema + "_topics" }

// connect makes a connection that listens.
func (b *Broker) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, b.pool.Config().ConnConfig.Copy())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{b.channel()}.Sanitize()); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), conn.Close(ctx))
	}
	return conn, nil
}

//go:embed schema.sql
var schema string

// SQL is what NewBroker runs where the schema does not exist, for applications that make their schemas themselves.
func (o Options) SQL() string {
	name := cmp.Or(o.Schema, "wskit")
	text := strings.NewReplacer("$schema", name, "$channel", name+"_topics",
		"$window", fmt.Sprintf("interval '%d seconds'", int(pubsub.IDWindow.Seconds()))).Replace(schema)
	return fmt.Sprintf("create schema %s;\n%s", name, text)
}

// migrate makes the tables where there are none. Processes that begin at once wait for one another.
func (b *Broker) migrate(ctx context.Context) error {
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, b.sql.lock, b.o.Schema); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRow(ctx, b.sql.exists, b.o.Schema).Scan(&exists); err != nil || exists {
		return err
	}
	if _, err := tx.Exec(ctx, b.o.SQL()); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Close ends all subscriptions.
func (b *Broker) Close() error {
	b.cancel()
	b.done.Wait()
	b.pool.Close()
	return nil
}

// call bounds a call, and returns its error for a broker that is closed.
func (b *Broker) call(ctx context.Context, what string, do func(context.Context) error) error {
	if b.ctx.Err() != nil {
		return pubsub.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	if err := do(ctx); err != nil {
		if b.ctx.Err() != nil {
			return pubsub.ErrClosed
		}
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
	return nil
}
