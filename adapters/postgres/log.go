package postgres

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wskit/wskit/pubsub"
)

// keepFor is how long a log with a history is kept after it was used.
func keepFor(h pubsub.History) time.Duration { return max(2*h.Age, pubsub.IDWindow) }

const (
	// maxTopic bounds the name of a topic, maxFrame a frame, in bytes.
	maxTopic = 2 << 10
	maxFrame = 16 << 20
)

func checkTopic(topic string) error {
	if topic == "" || len(topic) > maxTopic {
		return fmt.Errorf("postgres: the topic has a name of %d bytes; use 1 to %d", len(topic), maxTopic)
	}
	return nil
}

func checkAppend(m pubsub.Message, h pubsub.History, id string) error {
	if err := errors.Join(checkTopic(m.Topic), h.Check()); err != nil {
		return err
	}
	switch {
	case len(id) > pubsub.MaxIDLength:
		return fmt.Errorf("postgres: the id has %d bytes; use at most %d", len(id), pubsub.MaxIDLength)
	case len(m.Frame) > maxFrame:
		return fmt.Errorf("postgres: the frame has %d bytes; use at most %d", len(m.Frame), maxFrame)
	}
	return nil
}

// interval is a duration as text, which database/sql passes on, too.
func interval(d time.Duration) string { return fmt.Sprintf("%d microseconds", d.Microseconds()) }

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// orNull is a text as PostgreSQL takes it, which has no NUL in texts: as hexadecimal digits.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	hex := fmt.Sprintf("%x", s)
	return &hex
}

func position(epoch, offset, tag int64) pubsub.Position {
	return pubsub.Position{Epoch: uint64(epoch), Offset: uint64(offset), Tag: uint32(tag)}
}

// Tx is a transaction of pgx, or [sql.Tx] by [SQLTx].
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// AppendTx publishes an event to a topic with history in a transaction of the application, of the same database: when
// it commits, the event is in the history and on its way; when it is rolled back, nothing was ever there. Events of one
// transaction keep their order. The row of the topic is locked until the end of the transaction, and that of no other
// one: what others publish to this topic waits for it.
//
// payload is encoded by encoding/json. The event is not checked against the declared ones, and hooks of the router do
// not see it. id makes it safe to repeat, as router.PublishOptions.ID; empty: none. Options.History says what is kept.
func (b *Broker) AppendTx(ctx context.Context, tx Tx, topic, event string, payload any, id string) error {
	if event == "" || strings.HasPrefix(event, "$ws:") || strings.HasPrefix(topic, "$ws:") {
		return fmt.Errorf(
			"postgres: the event %q of the topic %q: use names that are not empty and do not begin with $ws:", event,
			topic,
		)
	}
	frame, err := eventFrame(topic, event, payload)
	if err != nil {
		return fmt.Errorf("postgres: encoding the event %q: %w", event, err)
	}
	m, h := pubsub.Message{Topic: topic, Frame: frame}, b.o.History
	if err := checkAppend(m, h, id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, b.sql.append, appendArgs(m, h, id)...); err != nil {
		return fmt.Errorf("postgres: appending in a transaction: %w", err)
	}
	return nil
}

// eventFrame is an event as a router appends it to a log: it begins with its topic.
func eventFrame(topic, event string, payload any) ([]byte, error) {
	b := []byte(`{"meta":{"topic":`)
	for _, part := range []struct{ text, behind string }{{topic, `},"type":`}, {event, ""}} {
		var err error
		if b, err = jsontext.AppendQuote(b, part.text); err != nil {
			return nil, err
		}
		b = append(b, part.behind...)
	}
	if payload != nil {
		encoded, err := json.Marshal(payload)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"payload":`...), encoded...)
	}
	return append(b, '}'), nil
}

// SQLTx is a transaction of database/sql for [Broker.AppendTx], with the driver of pgx.
func SQLTx(tx *sql.Tx) Tx { return sqlTx{tx} }

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	_, err := t.tx.ExecContext(ctx, sql, args...)
	return pgconn.CommandTag{}, err
}

// head is a log as it is.
type head struct {
	epoch, off, tag, oldest int64
}

func (h head) position() pubsub.Position { return position(h.epoch, h.off, h.tag) }

// Read implements [pubsub.Log].
func (b *Broker) Read(
	ctx context.Context, topic string, h pubsub.History, r pubsub.ReadOptions,
) (page pubsub.Page, err error) {
	if err := errors.Join(checkTopic(topic), h.Check()); err != nil {
		return page, err
	}
	// One snapshot, in which nothing is trimmed: no lock is needed.
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = b.call(ctx, "reading a log", func(ctx context.Context) error {
		for {
			begun := false
			err := pgx.BeginTxFunc(ctx, b.pool, snapshot, func(tx pgx.Tx) error {
				page, begun, err = b.readPage(ctx, tx, topic, h, r)
				return err
			})
			if begun || err != nil {
				return err
			}
			if _, err := b.pool.Exec(ctx, b.sql.begin, []byte(topic), interval(keepFor(h))); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return pubsub.Page{}, err
	}
	return page, nil
}

// readPage reads a page. It returns false if the log has to be begun, or kept for longer, before.
func (b *Broker) readPage(
	ctx context.Context, tx pgx.Tx, topic string, h pubsub.History, r pubsub.ReadOptions,
) (page pubsub.Page, begun bool, err error) {
	var l head
	err = tx.QueryRow(ctx, b.sql.kept, []byte(topic), interval(keepFor(h))).Scan(&l.epoch, &l.off, &l.tag, &l.oldest)
	if errors.Is(err, pgx.ErrNoRows) {
		return page, false, nil
	}
	if err != nil {
		return page, false, err
	}
	page, err = b.readFrom(ctx, tx, topic, l, h, r)
	return page, true, err
}

// readFrom reads a page of a log.
func (b *Broker) readFrom(
	ctx context.Context, tx pgx.Tx, topic string, l head, h pubsub.History, r pubsub.ReadOptions,
) (page pubsub.Page, err error) {
	page.Head = l.position()
	// The oldest that is kept: what is too old does not count.
	err = tx.QueryRow(ctx, b.sql.oldest, []byte(topic), l.off+1, l.oldest, interval(h.Age)).Scan(&l.oldest)
	if err != nil {
		return page, err
	}
	from, until := l.oldest, l.off // what could be read
	if r.From != (pubsub.Position{}) {
		var before int64
		if before, err = b.tagBehind(ctx, tx, topic, l, int64(r.From.Offset)); err != nil {
			return page, err
		}
		after := int64(r.From.Offset) + 1
		switch {
		case r.From.Epoch != uint64(l.epoch):
			page.Lost = pubsub.LossEpoch
		case after > l.off+1:
			page.Lost = pubsub.LossRewound
		case after < l.oldest:
			page.Lost = pubsub.LossTrimmed
		case before != int64(r.From.Tag):
			page.Lost = pubsub.LossRewound
		case !r.Backwards:
			from = after
		case after == l.oldest && until >= from && r.From.Offset > 0:
			page.Lost = pubsub.LossTrimmed
		default:
			until = int64(r.From.Offset) - 1
		}
		if page.Lost != pubsub.LossNone {
			return page, nil
		}
	}
	if r.Messages <= 0 {
		page.More = until >= from
		return page, nil
	}
	read := b.sql.forward
	if r.Backwards {
		read = b.sql.backward
	}
	rows, err := tx.Query(ctx, read, []byte(topic), from, until, r.Messages)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	size := 0
	for rows.Next() {
		m, err := scan(rows, topic, l.epoch)
		if err != nil {
			return page, err
		}
		if size += len(m.Frame); size > r.Bytes && len(page.Messages) > 0 {
			break
		}
		page.Messages = append(page.Messages, m)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return page, err
	}
	page.More = int64(len(page.Messages)) < until-from+1
	if r.Backwards {
		slices.Reverse(page.Messages)
	}
	return page, nil
}

// tagBehind is the tag of the message at an offset, as the one behind it has it, or the head.
func (b *Broker) tagBehind(ctx context.Context, tx pgx.Tx, topic string, l head, offset int64) (tag int64, err error) {
	if offset >= l.off {
		return l.tag, nil
	}
	err = tx.QueryRow(ctx, b.sql.previous, []byte(topic), offset+1).Scan(&tag)
	if errors.Is(err, pgx.ErrNoRows) { // it has been trimmed
		return 0, nil
	}
	return tag, err
}

// row is one of messages, or null.
type row struct {
	offset, tag, previous *int64
	frame                 []byte
	overflow              *int16
	key, except           *string
}

func (r *row) fields() []any {
	return []any{&r.offset, &r.tag, &r.previous, &r.frame, &r.overflow, &r.key, &r.except}
}

func (r *row) message(topic string, epoch int64) (m pubsub.Message, err error) {
	m = pubsub.Message{
		Topic: topic, Frame: r.frame, Overflow: uint8(*r.overflow), Position: position(epoch, *r.offset, *r.tag), Previous: uint32(*r.previous),
	}
	var failed error
	m.Key, err = unhex(*r.key)
	m.Except, failed = unhex(*r.except)
	return m, errors.Join(err, failed)
}

// scan reads a row of messages.
func scan(of pgx.CollectableRow, topic string, epoch int64) (m pubsub.Message, err error) {
	var r row
	if err := of.Scan(r.fields()...); err != nil {
		return m, err
	}
	return r.message(topic, epoch)
}

func unhex(s string) (string, error) {
	b, err := hex.DecodeString(s)
	return string(b), err
}

// Heads implements [pubsub.Log].
func (b *Broker) Heads(ctx context.Context, topics []string) (heads []pubsub.Position, err error) {
	heads = make([]pubsub.Position, len(topics))
	names := make([][]byte, len(topics))
	for i, topic := range topics {
		if err := checkTopic(topic); err != nil {
			return nil, err
		}
		names[i] = []byte(topic)
	}
	err = b.call(ctx, "reading heads", func(ctx context.Context) error {
		rows, err := b.pool.Query(ctx, b.sql.heads, names)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i, epoch, offset, tag int64
			if err := rows.Scan(&i, &epoch, &offset, &tag); err != nil {
				return err
			}
			heads[i-1] = position(epoch, offset, tag)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}

// Replace implements [pubsub.Replacer].
func (b *Broker) Replace(
	ctx context.Context, topic string, at pubsub.Position, frame []byte,
) (replaced bool, err error) {
	if err := checkTopic(topic); err != nil {
		return false, err
	}
	err = b.call(ctx, "replacing a message", func(ctx context.Context) error {
		tag, err := b.pool.Exec(
			ctx, b.sql.replace, []byte(topic), int64(at.Epoch), int64(at.Offset), int64(at.Tag), notNil(frame),
		)
		replaced = err == nil && tag.RowsAffected() == 1
		return err
	})
	return replaced, err
}
