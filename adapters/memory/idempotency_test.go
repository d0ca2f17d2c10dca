package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/idempotency/idempotencytest"
)

func TestIdempotency(t *testing.T) {
	idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
		s := memory.NewIdempotency()
		all := make([]idempotency.Store, n)
		for i := range all {
			all[i] = s
		}
		return all
	})
}

func claimOf(subject, key string) idempotency.Claim {
	return idempotency.Claim{Subject: subject, Key: key, Digest: "d", Execution: subject + key}
}

// Each bound refuses a new key, and what has expired or was released makes room again.
func TestIdempotencyIsBounded(t *testing.T) {
	for name, opts := range map[string]memory.IdempotencyOptions{
		"MaxKeys":       {MaxKeys: 20}, // of which a subject alone gets half
		"MaxPerSubject": {MaxPerSubject: 10},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			opts.Now = func() time.Time { return now }
			s := memory.NewIdempotency(opts)
			fill := func(lease time.Duration) (taken int) {
				for i := range 20 {
					state, _, err := s.Begin(ctx, claimOf("ann", fmt.Sprint(now.Unix(), i)), lease)
					switch {
					case err == nil && state == idempotency.Claimed:
						taken++
					case !errors.Is(err, idempotency.ErrFull):
						t.Fatalf("%v, %v", state, err)
					}
				}
				return taken
			}
			if n := fill(time.Minute); n != 10 {
				t.Errorf("%d keys are taken, of a bound of 10", n)
			}
			if n := fill(time.Minute); n != 10 { // the same keys again
				t.Errorf("%d keys are known", n)
			}
			if _, _, err := s.Begin(ctx, claimOf("bob", "1"), time.Minute); err != nil {
				t.Errorf("a key of another subject: %v", err)
			}
			_ = s.Release(ctx, claimOf("bob", "1"))
			now = now.Add(time.Minute)
			if n := fill(time.Hour); n != 10 {
				t.Errorf("after all have expired %d keys are taken", n)
			}
			if err := s.Release(ctx, claimOf("ann", fmt.Sprint(now.Unix(), 3))); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Begin(ctx, claimOf("ann", "another"), time.Hour); err != nil {
				t.Errorf("after a release: %v", err)
			}
		})
	}
}

// Subjects that want all there is leave room for one more, however many they are, and none of them
// loses what it has.
func TestIdempotencyLeavesRoomForOthers(t *testing.T) {
	for _, greedy := range []int{1, 5, 30} {
		s := memory.NewIdempotency(memory.IdempotencyOptions{MaxKeys: 1000, MaxBytes: 1 << 20})
		answer := make([]byte, 1000)
		keys, answers := make(map[string]int), make(map[string]int)
		keep := func(subject string, i int) error {
			c := claimOf(subject, fmt.Sprint(i))
			if _, _, err := s.Begin(ctx, c, time.Hour); err != nil {
				return err
			}
			keys[subject]++
			err := s.Finish(ctx, c, answer, time.Hour)
			if err == nil {
				answers[subject]++
			} else if err := s.Finish(ctx, c, answer[:1], time.Hour); err != nil {
				t.Fatalf("an answer of one byte: %v", err)
			}
			return err
		}
		for i := range 1000 {
			for g := range greedy {
				if err := keep(fmt.Sprint("greedy ", g), i); err != nil && !errors.Is(err, idempotency.ErrFull) {
					t.Fatal(err)
				}
			}
		}
		fair := 1000/(greedy+1) - 2
		for g := range greedy {
			name := fmt.Sprint("greedy ", g)
			if keys[name] < fair || answers[name] < fair {
				t.Errorf("one of %d has %d keys and %d answers of 1000, want %d", greedy, keys[name], answers[name], fair)
			}
			for i := range keys[name] {
				c := claimOf(name, fmt.Sprint(i))
				c.Execution = "again"
				if state, _, err := s.Begin(ctx, c, time.Hour); state != idempotency.Answered || err != nil {
					t.Fatalf("a key that was taken: %v, %v", state, err)
				}
			}
		}
		for i := range fair / 2 {
			if err := keep("ann", i); err != nil {
				t.Fatalf("key %d of another subject beside %d that want all: %v", i, greedy, err)
			}
		}
	}
}

// One subject with many large answers leaves half of the bytes to others, while there are keys for all.
func TestIdempotencyLeavesBytesForOthers(t *testing.T) {
	s := memory.NewIdempotency(memory.IdempotencyOptions{MaxKeys: 10_000, MaxPerSubject: 2000, MaxBytes: 1 << 20})
	keep := func(subject string, i int) error {
		c := claimOf(subject, fmt.Sprint(i))
		if _, _, err := s.Begin(ctx, c, time.Hour); err != nil {
			t.Fatal(err)
		}
		return s.Finish(ctx, c, make([]byte, 1000), time.Hour)
	}
	kept := 0
	for i := range 2000 {
		if err := keep("greedy", i); err == nil {
			kept++
		} else if !errors.Is(err, idempotency.ErrFull) {
			t.Fatal(err)
		}
	}
	if kept < 500 || kept > 530 {
		t.Errorf("%d answers of 1,000 bytes are kept in 1 MiB", kept)
	}
	for i := range 200 {
		if err := keep("ann", i); err != nil {
			t.Fatalf("answer %d of another subject: %v", i, err)
		}
	}
}

// An answer that does not fit is refused, the claim stays, and keys are still taken.
func TestIdempotencyRefusesAnAnswerThatDoesNotFit(t *testing.T) {
	s := memory.NewIdempotency(memory.IdempotencyOptions{MaxBytes: 3000})
	c := claimOf("ann", "1")
	if _, _, err := s.Begin(ctx, c, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(ctx, c, make([]byte, 3001), time.Hour); !errors.Is(err, idempotency.ErrFull) {
		t.Errorf("an answer of 3001 bytes: %v", err)
	}
	if err := s.Finish(ctx, c, make([]byte, 3000), time.Hour); err != nil {
		t.Errorf("an answer of 3000 bytes: %v", err)
	}
	full := claimOf("bob", "1")
	if _, _, err := s.Begin(ctx, full, time.Hour); err != nil {
		t.Errorf("a key where answers have no room: %v", err)
	}
	if err := s.Finish(ctx, full, make([]byte, 2), time.Hour); !errors.Is(err, idempotency.ErrFull) {
		t.Errorf("an answer where there is no room: %v", err)
	}
	if err := s.Finish(ctx, full, make([]byte, 1), time.Hour); err != nil {
		t.Errorf("an answer of one byte: %v", err)
	}
}

func TestIdempotencyOptionsThatMakeNoSense(t *testing.T) {
	for says, opts := range map[string]memory.IdempotencyOptions{
		"IdempotencyOptions.MaxKeys": {MaxKeys: -1}, "IdempotencyOptions.MaxPerSubject": {MaxPerSubject: -1}, "IdempotencyOptions.MaxBytes": {MaxBytes: -1},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "memory: ") || !strings.Contains(text, says) {
					t.Errorf("%s: the panic says %q", says, text)
				}
			}()
			memory.NewIdempotency(opts)
		}()
	}
}

// The second execution of a key gets the answer of the first.
func ExampleNewIdempotency() {
	s := memory.NewIdempotency()
	first := idempotency.Claim{Subject: "ann", Key: "order 17", Digest: "2 apples", Execution: "1"}
	again := idempotency.Claim{Subject: "ann", Key: "order 17", Digest: "2 apples", Execution: "2"}
	state, _, _ := s.Begin(ctx, first, time.Minute)
	fmt.Println(state == idempotency.Claimed)
	_ = s.Finish(ctx, first, []byte("ordered"), time.Hour)
	state, answer, _ := s.Begin(ctx, again, time.Minute)
	fmt.Println(state == idempotency.Answered, string(answer))
	// Output:
	// true
	// true ordered
}
