package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/internal/vectors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{
			Store: postgres.LimitsAt(open(t, s.URL(), postgres.Options{}), clock.Now),
			Clock: clock,
			Steps: 12,
		}
	})
}

// The published timelines, number for number: what is answered, and what the table keeps.
func TestStoreReplaysTheVectors(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	backend := open(t, s.URL(), postgres.Options{})
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for name, f := range vectors.Read(t, "../../limit/testdata") {
		for i, l := range f.Timelines {
			plans := l.Plans(t)
			var now int64
			store := postgres.LimitsAt(backend, func() time.Time { return time.UnixMicro(now) }).(vectors.Store)
			key := name + strconv.Itoa(i) + ":"
			for j, step := range l.Steps {
				now = step.Now
				ok := step.Replay(t, store, key, plans)
				if ok && (step.Op == "take" || step.Op == "refund") {
					var text string
					row := conn.QueryRow(
						t.Context(), "select coalesce(max(state), '') from wskit.states where key = $1",
						[]byte(key+"~"+plans[step.Policy].Shape()),
					)
					if err := row.Scan(&text); err != nil {
						t.Fatal(err)
					}
					text, _, _ = strings.Cut(text, "!") // of a reset
					if state := asks.ReadNumbers(nil, text); !step.Kept(state) {
						t.Errorf("after %s the state is %v, want %v", step.Op, state, step.State)
						ok = false
					}
				}
				if !ok {
					t.Fatalf("%s: %s, step %d", name, l.Name, j)
				}
			}
		}
	}
}

// hourly is a limit that gives back next to nothing during a test.
func hourly(capacity int64) limit.TokenBucket {
	return limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour}
}

// Several processes that compete for a key admit exactly what it has, also through operations on several keys.
func TestProcessesCompeteForKeys(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	const processes, capacity = 4, 300
	var admitted atomic.Int64
	var work sync.WaitGroup
	for range processes {
		store := open(t, s.URL(), postgres.Options{}).Limits.(vectors.Store)
		for caller := range 8 {
			work.Go(func() {
				for range 2 * capacity / processes / 8 {
					var allowed bool
					if caller%2 == 0 {
						d, err := store.Take(t.Context(), []byte("one"), hourly(capacity), 1)
						if err != nil {
							t.Error(err)
							return
						}
						allowed = d.Allowed
					} else {
						both := []limit.Ask{
							{Key: []byte("one"), Policy: hourly(capacity), Cost: 1}, {Key: fmt.Append(nil, "own", caller), Policy: hourly(100_000), Cost: 1},
						}
						if _, err := store.TakeAll(t.Context(), both); err != nil {
							t.Error(err)
							return
						}
						allowed = both[0].Decision.Allowed
					}
					if allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	work.Wait()
	if n := admitted.Load(); n != capacity {
		t.Errorf("%d were admitted of %d", n, capacity)
	}
}

// takeAlls is how often TestNoDeadlock charges several keys.
const takeAlls = 5000

// Operations on several overlapping keys, in any order, never wait for one another in a circle, and charge all keys or
// none.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	const keys, capacity = 12, 600_000
	var left, charged atomic.Int64
	left.Store(takeAlls)
	var work sync.WaitGroup
	var reader vectors.Store
	for range 2 {
		store := open(t, s.URL(), postgres.Options{MaxDecisionConns: 8}).Limits.(vectors.Store)
		reader = store
		for range 8 {
			work.Go(func() {
				for left.Add(-1) >= 0 {
					var all []limit.Ask
					for _, key := range rand.Perm(keys)[:4] {
						all = append(all, limit.Ask{Key: []byte{byte('a' + key)}, Policy: hourly(capacity), Cost: 1})
					}
					if _, err := store.TakeAll(t.Context(), all); err != nil {
						t.Error(err)
						return
					}
					charged.Add(int64(len(all)))
				}
			})
		}
	}
	work.Wait()
	var used int64
	for key := range keys {
		d, err := reader.Peek(t.Context(), []byte{byte('a' + key)}, hourly(capacity), 1)
		if err != nil {
			t.Fatal(err)
		}
		used += capacity - d.Remaining
	}
	if used != charged.Load() {
		t.Errorf("%d units are used, and %d were charged", used, charged.Load())
	}
}

// A flood of refused costs is answered without the database.
func TestDenialsAreRemembered(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	store := open(t, s.URL(), postgres.Options{}).Limits
	for range 2 {
		if _, err := store.Take(t.Context(), []byte("k"), hourly(1), 1); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill()
	for range 1000 {
		if d, err := store.Take(t.Context(), []byte("k"), hourly(1), 1); err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if _, err := store.Take(t.Context(), []byte("other"), hourly(1), 1); err == nil {
		t.Error("a cost was decided without the server")
	}
	if _, err := store.Take(t.Context(), []byte("k"), hourly(1), 1); err == nil {
		t.Error("a limiter that tries whether the server is back is answered from memory")
	}
	s.Run()
}

// What is over is deleted: no table grows for ever.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := open(t, s.URL(), postgres.Options{ProcessTimeout: time.Second})
	if _, err := b.Limits.Take(t.Context(), []byte("k"), limit.TokenBucket{Capacity: 10, Refill: 100, Per: time.Second}, 1); err != nil {
		t.Fatal(err)
	}
	s.Do("update wskit.states set expires = now() - interval '1 second'")
	if n := s.Do("insert into wskit.leases values ('k', 'i', 5)"); n != 1 {
		t.Fatal(n)
	}
	s.Do("insert into wskit.answers values ('s', 'k', 'd', 'e', null, now() - interval '1 second')")
	s.Do("insert into wskit.receivers values ('x', 5, 5)")
	for _, table := range []string{"states", "leases", "answers", "receivers"} {
		gone := "select 1 from (select count(*) as n from wskit." + table + ") as c where n = 0"
		s.Until(t, "nothing to be left in "+table, gone)
	}
}
