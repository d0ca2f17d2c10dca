package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// A notification has a kind and its text:
//
//	l MD5      the log of a topic has more messages
//	m JSON     a message that is not kept
//	r ID       a large message that is not kept, in the table large
//	p ID       it has come back: see fence
//	w MD5      the members of a topic have changed

// listener has the connection of the process that gets notifications. While it listens, the connection holds an
// advisory lock: the session that others count as a receiver.
type listener struct {
	d     *database
	fails outage.Reporter
	other sync.Once // a notification of another program was logged

	// kinds take the text of a notification. An error ends the connection. lost are called when it has been made anew,
	// and fresh before, with the session: what it registers counts as soon as the connection listens.
	kinds map[byte]func(text string) error
	lost  []func()
	fresh func(ctx context.Context, session int32) error

	mu      sync.Mutex
	fences  map[string]chan struct{}
	up      chan struct{} // closed while the connection listens
	session int32         // of the connection
}

func (l *listener) init(d *database) {
	l.d, l.fences, l.up = d, make(map[string]chan struct{}), make(chan struct{})
	l.fails = outage.Reporter{
		Component: "broker", Name: d.o.Schema, Log: d.o.Logger, Hook: d.o.OnOutage,
		Failing: "postgres: the connection that listens is lost; trying again", Working: "postgres: the connection listens again",
	}
	l.kinds = map[byte]func(string) error{'p': l.cameBack}
}

func (l *listener) channel() string { return l.d.o.Schema + "_topics" }

// start begins to listen.
func (l *listener) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.d.o.Timeout)
	defer cancel()
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	// A pooler in transaction mode forgets LISTEN: then this does not come back.
	if _, err := l.d.pool.Exec(ctx, l.d.sql.notify, l.channel(), "open"); err != nil {
		return errors.Join(fmt.Errorf("postgres: %w", err), conn.Close(ctx))
	}
	if _, err := conn.WaitForNotification(ctx); err != nil {
		return errors.Join(
			fmt.Errorf("postgres: a notification does not come back, as through a pooler in transaction mode; "+
				"use the database itself, or a pooler in session mode: %w", err),
			conn.Close(ctx),
		)
	}
	l.d.done.Go(func() { l.listen(conn) })
	return nil
}

// connect makes a connection that listens, and registers its session.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, l.d.pool.Config().ConnConfig.Copy())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	var random [4]byte
	_, _ = rand.Read(random[:])                                 // never fails
	session := int32(binary.BigEndian.Uint32(random[:])>>1) | 1 // positive, as pg_locks shows no sign
	l.mu.Lock()
	l.session = session
	l.mu.Unlock()
	_, err = conn.Exec(ctx, l.d.sql.listen(l.channel(), session))
	if err == nil {
		err = l.fresh(ctx, session)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), conn.Close(ctx))
	}
	return conn, nil
}

func (l *listener) sessionNow() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// listen takes notifications, and connects again when the connection is lost.
func (l *listener) listen(conn *pgx.Conn) {
	for {
		l.setUp(true)
		err := l.take(conn)
		l.setUp(false)
		_ = conn.Close(l.d.ctx)
		for l.d.ctx.Err() == nil {
			l.fails.Failed(err)
			ctx, cancel := context.WithTimeout(l.d.ctx, l.d.o.Timeout)
			conn, err = l.connect(ctx)
			cancel()
			if err == nil {
				l.fails.Works()
				break
			}
			l.d.pause()
		}
		if l.d.ctx.Err() != nil {
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(l.d.ctx))
			}
			return
		}
		for _, lost := range l.lost {
			lost()
		}
	}
}

func (l *listener) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up {
		close(l.up)
	} else {
		l.up = make(chan struct{})
	}
}

// take takes notifications until the connection is lost.
func (l *listener) take(conn *pgx.Conn) error {
	for {
		n, err := conn.WaitForNotification(l.d.ctx)
		if err != nil {
			return err
		}
		if n.Payload == "" || l.kinds[n.Payload[0]] == nil {
			continue
		}
		if err := l.kinds[n.Payload[0]](n.Payload[1:]); err != nil {
			return err
		}
	}
}

// foreign logs the first notification of another program.
func (l *listener) foreign() {
	l.other.Do(func() {
		l.d.o.Logger.Warn("postgres: a notification that no Broker has sent was dropped; further ones are, too",
			"channel", l.channel())
	})
}

// awaitUp returns when the connection listens.
func (l *listener) awaitUp(ctx context.Context) error {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.d.ctx.Done():
		return pubsub.ErrClosed
	}
}

// fence returns when all notifications of before have been taken. send has the database send one with the id.
func (l *listener) fence(ctx context.Context, send func(id string) error) error {
	if err := l.awaitUp(ctx); err != nil {
		return err
	}
	id, back := rand.Text(), make(chan struct{})
	l.mu.Lock()
	l.fences[id] = back
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.fences, id)
	}()
	if err := send(id); err != nil {
		return err
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *listener) cameBack(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if back := l.fences[id]; back != nil {
		delete(l.fences, id)
		close(back)
	}
	return nil
}
