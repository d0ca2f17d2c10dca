package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// database is what the parts share: connections, statements, and the connection that listens.
type database struct {
	listener
	o         Options
	sql       queries
	pool      *pgxpool.Pool
	decisions *pgxpool.Pool // a commit on these waits for no disk: a crash may forget the last second of decisions
	ctx       context.Context
	cancel    context.CancelFunc
	done      sync.WaitGroup
}

// openDatabase makes the connections and the tables.
func openDatabase(ctx context.Context, url string, o Options) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // it may have a password
		return nil, errors.New("postgres: the URL cannot be read; use the form postgres://user@host:port/database")
	}
	d := &database{o: o, sql: queriesOf(o.Schema)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.listener.init(d)
	if d.pool, err = newPool(ctx, config, o.MaxConns, d.sql.session(o.Timeout)); err == nil {
		d.decisions, err = newPool(
			ctx, config, o.MaxDecisionConns, d.sql.session(o.Timeout)+"; set synchronous_commit = off",
		)
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		if err = d.migrate(within); err != nil {
			err = fmt.Errorf("the tables cannot be made: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), d.close())
	}
	return d, nil
}

// newPool makes connections that begin with a statement.
func newPool(ctx context.Context, of *pgxpool.Config, most int, first string) (*pgxpool.Pool, error) {
	config := of.Copy()
	config.MaxConns = int32(most)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, first)
		return err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

//go:embed schema.sql
var schema string

// SQL is what [Open] runs where the schema does not exist, for applications that make their schemas themselves.
func (o Options) SQL() string {
	name := cmp.Or(o.Schema, "wskit")
	text := strings.NewReplacer("$schema", name, "$channel", name+"_topics",
		"$window", fmt.Sprintf("interval '%d seconds'", int(pubsub.IDWindow.Seconds()))).Replace(schema)
	return fmt.Sprintf("create schema %s;\n%s", name, text)
}

// migrate makes the tables where there are none. Processes that begin at once wait for one another.
func (d *database) migrate(ctx context.Context) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, d.sql.lock, d.o.Schema); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRow(ctx, d.sql.exists, d.o.Schema).Scan(&exists); err != nil || exists {
		return err
	}
	if _, err := tx.Exec(ctx, d.o.SQL()); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// close ends all that runs.
func (d *database) close() error {
	d.cancel()
	d.done.Wait()
	for _, pool := range []*pgxpool.Pool{d.pool, d.decisions} {
		if pool != nil {
			pool.Close()
		}
	}
	return nil
}

// call bounds a call, and returns its error for what is closed.
func (d *database) call(ctx context.Context, what string, do func(context.Context) error) error {
	if d.ctx.Err() != nil {
		return pubsub.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	if err := do(ctx); err != nil {
		if d.ctx.Err() != nil {
			return pubsub.ErrClosed
		}
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
	return nil
}

// sweep deletes what is over, again and again. What fails is deleted the next time.
func (d *database) sweep() {
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(d.o.ProcessTimeout):
		}
		ctx, cancel := context.WithTimeout(d.ctx, d.o.Timeout)
		_, _ = d.pool.Exec(ctx, d.sql.sweepStates)
		_, _ = d.pool.Exec(ctx, d.sql.sweepLeases, leaseTolerance)
		_, _ = d.pool.Exec(ctx, d.sql.sweepAnswers)
		_, _ = d.pool.Exec(ctx, d.sql.sweepReceivers, d.o.Schema)
		cancel()
	}
}

// pause is the time after which what has failed is tried again.
func (d *database) pause() {
	select {
	case <-d.ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
}
