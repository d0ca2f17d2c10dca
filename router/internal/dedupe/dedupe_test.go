package dedupe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/idempotency"
)

// store is a store that can fail, be slow, and is counted.
type store struct {
	idempotency.Store
	fails   atomic.Bool
	renews  chan struct{} // Renew waits until it is closed; nil: it does not
	renewed atomic.Int64
}

var errAway = errors.New("away")

func (s *store) Begin(ctx context.Context, c idempotency.Claim, lease time.Duration) (idempotency.State, []byte, error) {
	if s.fails.Load() {
		return 0, nil, errAway
	}
	return s.Store.Begin(ctx, c, lease)
}

func (s *store) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	s.renewed.Add(1)
	if s.renews != nil {
		<-s.renews
	}
	return s.Store.Renew(ctx, c, lease)
}

func (s *store) Finish(ctx context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
	if s.fails.Load() {
		return errAway
	}
	return s.Store.Finish(ctx, c, answer, keep)
}

func test(t *testing.T, f func(t *testing.T, s *store, c *Config, busy *atomic.Int64)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, busy := &store{Store: memory.NewIdempotency()}, new(atomic.Int64)
		f(t, s, &Config{
			Store: s, Keep: time.Hour, Lease: 9 * time.Second, Timeout: time.Second, Busy: func(n int) { busy.Add(int64(n)) },
		}, busy)
	})
}

func pay(c *Config, key string) *Execution {
	return New(c, Claim("ann", "pay", []byte(key), []byte(`{"n":1}`)))
}

// Of any number of executions at once, one handles the message, however long it takes, and all others get its answer.
func TestOneHandlesTheMessage(t *testing.T) {
	test(t, func(t *testing.T, _ *store, c *Config, _ *atomic.Int64) {
		var handled, answered atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				e := pay(c, "k")
				state, answer, err := e.Begin()
				if state == idempotency.Running && err == nil {
					var ok bool
					if state, answer, err, ok = e.Await(nil); !ok {
						t.Error("gave up")
					}
				}
				switch {
				case err != nil:
					t.Error(err)
				case state == idempotency.Claimed:
					handled.Add(1)
					time.Sleep(5 * time.Minute)
					if !e.End() || e.End() {
						t.Error("it does not end once")
					}
					if err := e.KeepAnswer([]byte("done")); err != nil {
						t.Error(err)
					}
				case state == idempotency.Answered && string(answer) == "done":
					answered.Add(1)
				default:
					t.Errorf("state %d, answer %q", state, answer)
				}
			})
		}
		all.Wait()
		if handled.Load() != 1 || answered.Load() != 19 {
			t.Errorf("%d handled it, %d were answered", handled.Load(), answered.Load())
		}
	})
}

// When the process that handles a message is gone, another execution begins after the lease, and not before. One that
// has been released is begun at once.
func TestAClaimEnds(t *testing.T) {
	test(t, func(t *testing.T, _ *store, c *Config, _ *atomic.Int64) {
		gone := pay(c, "k")
		if state, _, err := gone.Begin(); state != idempotency.Claimed || err != nil {
			t.Fatal(state, err)
		}
		gone.timer.Stop() // as in a process that was killed
		began := time.Now()
		e := pay(c, "k")
		state, _, err, _ := e.Await(nil)
		if took := time.Since(began); state != idempotency.Claimed || err != nil || took < c.Lease || took > c.Lease+time.Second {
			t.Errorf("after %v: state %d, %v", took, state, err)
		}
		if e.End() {
			t.Error("a claim that was waited for is renewed")
		}
		e.Release()
		if state, _, _ := pay(c, "k").Begin(); state != idempotency.Claimed {
			t.Errorf("after the release: %d", state)
		}
		done := make(chan struct{})
		close(done)
		if _, _, _, ok := pay(c, "k").Await(done); ok {
			t.Error("it waited although the client is gone")
		}
	})
}

// A renewal that is under way when an execution ends does not claim again what is released after it.
func TestEndWaitsForARenewal(t *testing.T) {
	test(t, func(t *testing.T, s *store, c *Config, _ *atomic.Int64) {
		s.renews = make(chan struct{})
		e := pay(c, "k")
		if _, _, err := e.Begin(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(c.Lease/3 + time.Millisecond)
		ended := make(chan struct{})
		go func() { e.End(); e.Release(); close(ended) }()
		synctest.Wait()
		if s.renewed.Load() != 1 {
			t.Errorf("renewed %d times", s.renewed.Load())
		}
		select {
		case <-ended:
			t.Error("it ended during the renewal")
		default:
		}
		close(s.renews)
		<-ended
		if state, _, _ := pay(c, "k").Begin(); state != idempotency.Claimed {
			t.Errorf("after the release: %d", state)
		}
	})
}

// An answer that a store does not take is kept when it works again, as long as the lease lasts; that is waited for.
func TestAnAnswerIsKeptLater(t *testing.T) {
	test(t, func(t *testing.T, s *store, c *Config, busy *atomic.Int64) {
		for _, away := range []time.Duration{5 * time.Second, 15 * time.Second} {
			e := pay(c, fmt.Sprint(away))
			if _, _, err := e.Begin(); err != nil {
				t.Fatal(err)
			}
			s.fails.Store(true)
			e.End()
			if err := e.KeepAnswer([]byte("done")); err != errAway {
				t.Fatal(err)
			}
			e.Insist([]byte("done"), []byte("-"))
			if busy.Load() != 1 {
				t.Error("it is not waited for")
			}
			if _, _, err := pay(c, fmt.Sprint(away)).Begin(); err != errAway {
				t.Errorf("while the store is away: %v", err)
			}
			time.Sleep(away)
			s.fails.Store(false)
			time.Sleep(time.Second)
			want := idempotency.Answered
			if away > c.Lease {
				want = idempotency.Claimed
			}
			if state, _, err := pay(c, fmt.Sprint(away)).Begin(); state != want || err != nil || busy.Load() != 0 {
				t.Errorf("after %v: state %d, %v; busy %d", away, state, err, busy.Load())
			}
		}
	})
}

// Where the store that works again has no room for the answer, it knows at least that the message was handled.
func TestAnAnswerWithoutRoomIsKeptLater(t *testing.T) {
	test(t, func(t *testing.T, s *store, c *Config, _ *atomic.Int64) {
		s.Store = memory.NewIdempotency(memory.IdempotencyOptions{MaxBytes: 10})
		e := pay(c, "k")
		if _, _, err := e.Begin(); err != nil {
			t.Fatal(err)
		}
		s.fails.Store(true)
		e.End()
		e.Insist([]byte("more than ten bytes"), []byte("-"))
		time.Sleep(time.Second)
		s.fails.Store(false)
		time.Sleep(c.Lease)
		if state, answer, err := pay(c, "k").Begin(); state != idempotency.Answered || string(answer) != "-" || err != nil {
			t.Errorf("state %d, %q, %v", state, answer, err)
		}
	})
}

// What makes a message another one: its subject, type, key and the value of its payload, and nothing else.
func TestWhatMakesAMessage(t *testing.T) {
	t.Parallel()
	one := Claim("ann", "pay", []byte("k"), []byte(`{"a":"x","b":[1,2]}`))
	for payload, same := range map[string]bool{
		`{"a":"x","b":[1,2]}`: true, " {\"b\" : [1, 2] ,\n\"a\":\"\\u0078\"}": true,
		`{"a":"x","b":[2,1]}`: false, `{"a":"x"}`: false, `{"a":"x","b":[1,2],"c":null}`: false, ``: false, `null`: false,
	} {
		other := Claim("ann", "pay", []byte("k"), []byte(payload))
		if (other.Digest == one.Digest) != same || other.Key != one.Key || other.Execution == one.Execution {
			t.Errorf("%s is taken for %t", payload, !same)
		}
	}
	if a, b := Claim("ann", "pay", []byte("k"), nil), Claim("ann", "pay", []byte("k"), []byte("null")); a.Digest != b.Digest {
		t.Error("no payload and null are two payloads")
	}
	if Claim("ann", "payk", []byte(""), nil).Key == Claim("ann", "pay", []byte("k"), nil).Key || Digest("a", []byte("b")) == Digest("ab") {
		t.Error("two texts have one digest")
	}
}
