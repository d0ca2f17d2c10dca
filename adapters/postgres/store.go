package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// store is a [limit.Store] and a [limit.LeaseStore] in PostgreSQL.
//
// A decision reads the state of its key with the clock of the server, is made here by the arithmetic of package limit,
// and written if the state is still as it was read; otherwise it is made again. So no lock is held between two
// statements, and a denial writes nothing. Decisions that come together share their statements; a cost that is known to
// be denied is denied without asking, see package denialcache. A decision whose outcome is unknown is never made again.
type store struct {
	*database
	now       func() int64 // of tests; nil for the clock of the server
	memory    *denialcache.Cache
	answering atomic.Bool // the last call was answered; while it was not, nothing is denied without asking
	seed      maphash.Seed
	lanes     [lanes]*batch.Batcher[call]
	ofSeveral *batch.Batcher[call] // calls about several keys
}

// lanes is how many batches of decisions are made at the same time. Those of one key are in the same lane, one after
// the other: the processes compete for a key, and not the callers of a process.
const lanes = 4

var (
	_ limit.ExtendedStore = (*store)(nil)
	_ limit.ManyTaker     = (*store)(nil)
	_ limit.LeaseStore    = (*store)(nil)
)

func newStore(d *database, now func() time.Time) *store {
	instant := engine.Clock(now)
	s := &store{
		database: d,
		now:      instant,
		memory:   denialcache.New(denialcache.Options{Now: instant}),
		seed:     maphash.MakeSeed(),
	}
	for i := range s.lanes {
		s.lanes[i] = batch.New(
			func(ctx context.Context, items []*batch.Item[call]) { s.trip(ctx, items, false) },
			batch.Options{Flushes: 1},
		)
	}
	s.ofSeveral = batch.New(
		func(ctx context.Context, items []*batch.Item[call]) { s.trip(ctx, items, true) }, batch.Options{Flushes: 1},
	)
	s.answering.Store(true)
	return s
}

// ProcessTimeout is Options.ProcessTimeout, for [limit.NewConcurrencyLimit].
func (s *store) ProcessTimeout() time.Duration { return s.o.ProcessTimeout }

// instant is the instant of a test, or nil.
func (s *store) instant() *int64 {
	if s.now == nil {
		return nil
	}
	at := s.now()
	return &at
}

// maxKey is the longest key that an index takes as it is.
const maxKey = 1 << 10

// keyBytes is a key in the database: a long one by its hash.
func keyBytes(key string) []byte {
	if len(key) <= maxKey {
		return []byte(key)
	}
	sum := sha256.Sum256([]byte(key))
	return append([]byte(key[:maxKey]), sum[:]...)
}

// Take implements [limit.Store].
func (s *store) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	a := asks.Ask{Operation: asks.Take, Key: asks.KeyOf(key, plan), Plan: plan, Cost: cost}
	if s.answering.Load() {
		var denied bool
		if a.Question, denied = s.memory.Get(&d, key, plan, cost); denied {
			return d, nil
		}
	}
	return s.one(ctx, a)
}

// Peek implements [limit.ExtendedStore].
func (s *store) Peek(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return limit.Decision{}, err
	}
	return s.one(ctx, asks.Ask{Operation: asks.Peek, Key: asks.KeyOf(key, plan), Plan: plan, Cost: cost})
}

// Refund implements [limit.ExtendedStore].
func (s *store) Refund(ctx context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil || taken.Charged < 1 {
		return err
	}
	defer s.memory.Invalidate(key, plan)
	_, err = s.one(
		ctx,
		asks.Ask{Operation: asks.Refund, Key: asks.KeyOf(key, plan), Plan: plan, Cost: taken.Charged, Taken: taken},
	)
	return err
}

// Reset implements [limit.ExtendedStore].
func (s *store) Reset(ctx context.Context, key []byte, policy limit.Policy) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	defer s.memory.Invalidate(key, plan)
	_, err = s.one(ctx, asks.Ask{Operation: asks.Reset, Key: asks.KeyOf(key, plan), Plan: plan})
	return err
}

// TakeMany implements [limit.ManyTaker].
func (s *store) TakeMany(ctx context.Context, several []limit.Ask) error {
	all, err := s.several(ctx, several, false)
	for i := range all {
		several[i].Decision = all[i].Answer
	}
	return err
}

// TakeAll implements [limit.ManyTaker].
func (s *store) TakeAll(ctx context.Context, several []limit.Ask) (bound int, err error) {
	all, err := s.several(ctx, several, true)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return asks.Bind(several, all), nil
}

// several decides asks at one instant.
func (s *store) several(ctx context.Context, several []limit.Ask, together bool) ([]asks.Ask, error) {
	all, err := asks.Of(several)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	for i := range all {
		var d limit.Decision
		all[i].Question, _ = s.memory.Get(&d, several[i].Key, all[i].Plan, all[i].Cost)
	}
	return all, s.do(ctx, s.ofSeveral, call{asks: all, together: together})
}

// one decides an ask.
func (s *store) one(ctx context.Context, a asks.Ask) (limit.Decision, error) {
	all := []asks.Ask{a}
	err := s.do(ctx, s.lanes[maphash.String(s.seed, a.Key)%lanes], call{asks: all})
	return all[0].Answer, err
}

// do decides a call, with others of its lane. The answers are in its asks.
func (s *store) do(ctx context.Context, lane *batch.Batcher[call], c call) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	item := lane.Item()
	item.Value = call{asks: slices.Clone(c.asks), together: c.together} // the caller may leave before the answer
	if err := lane.Do(ctx, item); err != nil {
		return err
	}
	copy(c.asks, item.Value.asks)
	item.Value = call{}
	lane.Free(item)
	return nil
}

// trip decides a batch.
func (s *store) trip(ctx context.Context, items []*batch.Item[call], atOnce bool) {
	each := make([]*call, len(items))
	for i, item := range items {
		each[i] = &item.Value
	}
	left, err := s.decide(ctx, each, atOnce)
	if err == nil {
		return
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); !answered && !errors.Is(err, context.Canceled) {
		err = batch.NotAnswered(err)
	}
	for i, item := range items {
		if slices.Contains(left, each[i]) {
			item.Err = err
		}
	}
}

// decide makes rounds until all calls are decided. left are those that are not, with an error.
func (s *store) decide(ctx context.Context, calls []*call, atOnce bool) (left []*call, err error) {
	r := round{atOnce: atOnce}
	left = calls
	err = s.call(ctx, "deciding", func(ctx context.Context) error {
		for len(left) > 0 {
			r.begin(left)
			if err := s.read(ctx, &r); err != nil {
				return err
			}
			r.decide()
			lost, err := s.write(ctx, &r)
			if err != nil {
				return err
			}
			left = r.settle(lost)
		}
		return nil
	})
	s.answering.Store(err == nil || errors.Is(err, context.Canceled))
	return left, err
}

// read reads the states of the keys.
func (s *store) read(ctx context.Context, r *round) error {
	var texts []string
	if err := s.decisions.QueryRow(ctx, s.sql.states, s.instant(), r.keys()).Scan(&r.now, &texts); err != nil {
		return err
	}
	for i, text := range texts {
		r.states[i].read(text)
	}
	return nil
}

// write writes the states that have changed, and returns the keys of those that others had changed.
func (s *store) write(ctx context.Context, r *round) (lost map[string]bool, err error) {
	keys, before, after, lasts := r.changes()
	if len(keys) == 0 {
		return nil, nil
	}
	statement := s.sql.swap
	if r.atOnce {
		statement = s.sql.swapAll
	}
	rows, err := s.decisions.Query(ctx, statement, keys, before, after, lasts)
	if err != nil {
		return nil, err
	}
	written, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, err
	}
	if len(written) < len(keys) {
		lost = make(map[string]bool)
		for _, key := range keys {
			lost[string(key)] = true
		}
		for _, key := range written {
			delete(lost, string(key))
		}
	}
	return lost, nil
}

var errClosed = errors.New("postgres: the store is closed")
