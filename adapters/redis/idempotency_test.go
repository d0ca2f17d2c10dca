package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	wskiterrors "github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/idempotency/idempotencytest"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
)

func newIdempotency(t *testing.T, s *redistest.Server, opts redis.IdempotencyOptions) idempotency.Store {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return redis.NewIdempotency(client, opts)
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
		all := make([]idempotency.Store, n)
		for i := range all {
			all[i] = newIdempotency(t, s, redis.IdempotencyOptions{Timeout: patience})
		}
		return all
	})
	for _, key := range keys(s) {
		if left := s.Do("PTTL", key).(int64); left <= 0 {
			t.Errorf("%q does not expire", key)
		}
	}
}

func TestIdempotencyInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
		all := make([]idempotency.Store, n)
		for i := range all {
			all[i] = redis.NewIdempotency(clusterClient(t, c), redis.IdempotencyOptions{Timeout: patience})
		}
		return all
	})
}

func claimOf(subject, key string) idempotency.Claim {
	return idempotency.Claim{Subject: subject, Key: key, Digest: "d", Execution: subject + key}
}

// The keys of a subject are bounded; what has expired or was released makes room again.
func TestIdempotencyIsBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newIdempotency(t, server, redis.IdempotencyOptions{MaxPerSubject: 10, Timeout: patience})
	begin := func(subject, key string, lease time.Duration) error {
		state, _, err := s.Begin(ctx, claimOf(subject, key), lease)
		if err == nil && state != idempotency.Claimed {
			t.Fatalf("%s %s: %v", subject, key, state)
		}
		return err
	}
	for i := range 11 {
		if err := begin("cid", fmt.Sprint(i), time.Hour); (err != nil) != (i == 10) {
			t.Errorf("key %d of 10: %v", i+1, err)
		}
	}
	for i := range 9 {
		if err := begin("ann", fmt.Sprint(i), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("ann", "short", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := begin("bob", "0", time.Hour); err != nil {
		t.Errorf("a key of another subject: %v", err)
	}
	if err := begin("ann", "0", time.Hour); err != nil {
		t.Errorf("a key that is there: %v", err)
	}
	eventually(t, "what has expired makes room", func() bool {
		err := begin("ann", "after", time.Hour)
		if err != nil && !errors.Is(err, idempotency.ErrFull) {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := begin("ann", "more", time.Hour); !errors.Is(err, idempotency.ErrFull) {
		t.Errorf("the eleventh key: %v", err)
	}
	if err := s.Release(ctx, claimOf("ann", "0")); err != nil {
		t.Fatal(err)
	}
	if err := begin("ann", "more", time.Hour); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

// The answers of a subject are bounded in bytes, apart from its keys; what has expired makes room again.
func TestIdempotentAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	s := newIdempotency(t, server, redis.IdempotencyOptions{MaxBytesPerSubject: 1000, Timeout: patience})
	answer := func(subject, key string, size int, keep time.Duration) error {
		c := claimOf(subject, key+" 300") // a key may be any text
		if state, _, err := s.Begin(ctx, c, time.Hour); err != nil || state != idempotency.Claimed {
			t.Fatalf("%s %s: %v, %v", subject, key, state, err)
		}
		return s.Finish(ctx, c, make([]byte, size), keep)
	}
	expect := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	expect(answer("ann", "1", 400, time.Minute), nil)
	expect(answer("ann", "2", 400, 3*time.Minute), nil)
	expect(answer("ann", "3", 201, time.Hour), idempotency.ErrFull)
	expect(s.Finish(ctx, claimOf("ann", "3 300"), make([]byte, 1), time.Hour), nil)
	expect(answer("bob", "1", 1000, time.Hour), nil)
	expect(s.Finish(ctx, claimOf("bob", "1 300"), make([]byte, 1000), time.Hour), nil) // a repeated call counts once
	expect(answer("bob", "2", 2, time.Hour), idempotency.ErrFull)
	clock.Step(2 * time.Minute)
	expect(answer("ann", "4", 599, time.Hour), nil)
	expect(answer("ann", "5", 2, time.Hour), idempotency.ErrFull)
	clock.Step(2 * time.Minute)
	expect(answer("ann", "6", 401, time.Hour), idempotency.ErrFull)
	expect(answer("ann", "7", 400, time.Hour), nil)
	clock.Step(2 * time.Hour)
	expect(answer("ann", "8", 1001, time.Hour), idempotency.ErrFull)
	expect(answer("ann", "9", 1000, time.Hour), nil)
	for _, key := range keys(server) {
		if left := server.Do("PTTL", key).(int64); left <= 0 {
			t.Errorf("%q does not expire", key)
		}
	}
}

// Keys of another type are not the store's, and do not stop it.
func TestIdempotencyMeetsForeignKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newIdempotency(t, server, redis.IdempotencyOptions{Timeout: patience})
	server.Do("SET", "wskit:idempotency:{ann}:1", "foreign")
	server.Do("SET", "wskit:idempotency:{ann}", "foreign")
	server.Do("SADD", "wskit:idempotency-bytes:{ann}", "foreign")
	if state, _, err := s.Begin(ctx, claimOf("ann", "1"), time.Hour); err != nil || state != idempotency.Claimed {
		t.Errorf("%v, %v", state, err)
	}
	if err := s.Finish(ctx, claimOf("ann", "1"), []byte("answer"), time.Hour); err != nil {
		t.Error(err)
	}
}

func TestIdempotencyWhileRedisIsStalled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger, logged := newLog()
	outages := make(chan wskiterrors.Outage, 100)
	s := newIdempotency(t, server, redis.IdempotencyOptions{
		Timeout: 200 * time.Millisecond, Logger: logger, OnOutage: func(o wskiterrors.Outage) { outages <- o },
	})
	eventually(t, "Begin works", func() bool {
		_, _, err := s.Begin(ctx, claimOf("ann", "1"), time.Hour)
		return err == nil
	})
	server.Stall()
	if _, _, err := s.Begin(ctx, claimOf("ann", "2"), time.Hour); err == nil || !strings.HasPrefix(err.Error(), "redis: idempotency: ") {
		t.Errorf("Begin: %v", err)
	}
	server.Resume()
	eventually(t, "Begin of the same execution works", func() bool {
		state, _, err := s.Begin(ctx, claimOf("ann", "2"), time.Hour)
		return err == nil && state == idempotency.Claimed
	})
	eventually(t, "the end of the outage is logged", func() bool {
		_, _, _ = s.Begin(ctx, claimOf("ann", "2"), time.Hour)
		return strings.Contains(logged(), "cannot be read or written") && strings.Contains(logged(), "read and written again")
	})
	for _, over := range []bool{false, true} {
		if o := <-outages; o.Component != "idempotency" || o.Over != over || o.Err == nil {
			t.Errorf("%+v", o)
		}
	}
}

// childLease is in the time of Redis, which the test steps.
const childLease = time.Minute

// TestIdempotencyProcess is the child of TestKilledProcessLosesItsClaims.
func TestIdempotencyProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_TEST_IDEMPOTENCY")
	if addr == "" {
		t.Skip("run by TestKilledProcessLosesItsClaims")
	}
	s := redis.NewIdempotency(goredis.NewClient(&goredis.Options{Addr: addr}), redis.IdempotencyOptions{Timeout: patience})
	answered := claimOf("ann", "answered")
	for _, c := range []idempotency.Claim{answered, claimOf("ann", "claimed")} {
		if _, _, err := s.Begin(context.Background(), c, childLease); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(context.Background(), answered, []byte("done"), time.Hour); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	for { // its claim lasts while it lives
		if err := s.Renew(context.Background(), claimOf("ann", "claimed"), childLease); err != nil {
			t.Fatal(err)
		}
		pause(10 * time.Millisecond)
	}
}

// Of a process that was killed, the answers stay, and the claims end.
func TestKilledProcessLosesItsClaims(t *testing.T) {
	server, clock := redistest.StartWithClock(t)
	s := newIdempotency(t, server, redis.IdempotencyOptions{Timeout: patience})
	child := process.StartTest(t, "TestIdempotencyProcess", "WSKIT_TEST_IDEMPOTENCY="+server.Addr, "ready")
	begin := func(key string) (idempotency.State, string) {
		c := claimOf("ann", key)
		c.Execution = "another"
		state, answer, err := s.Begin(ctx, c, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return state, string(answer)
	}
	for range 4 { // twice the lease
		clock.Step(childLease / 2)
		before := server.Calls("evalsha")
		eventually(t, "the child renews", func() bool { return server.Calls("evalsha") > before+1 })
	}
	if state, _ := begin("claimed"); state != idempotency.Running {
		t.Errorf("while the process lives: %v", state)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if state, answer := begin("answered"); state != idempotency.Answered || answer != "done" {
		t.Errorf("the answer of the killed process: %v, %q", state, answer)
	}
	if state, _ := begin("claimed"); state != idempotency.Running {
		t.Errorf("within the lease of the killed process: %v", state)
	}
	clock.Step(childLease)
	if state, _ := begin("claimed"); state != idempotency.Claimed {
		t.Errorf("after the lease of the killed process: %v", state)
	}
}

func TestIdempotencyOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	client := goredis.NewClient(&goredis.Options{})
	defer client.Close()
	for says, opts := range map[string]redis.IdempotencyOptions{
		"IdempotencyOptions.Prefix":        {Prefix: "a:b"},
		"IdempotencyOptions.MaxPerSubject": {MaxPerSubject: -1}, "IdempotencyOptions.MaxBytesPerSubject": {MaxBytesPerSubject: -1},
		"IdempotencyOptions.Timeout": {Timeout: -1},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "redis: ") || !strings.Contains(text, says) {
					t.Errorf("%s: the panic says %q", says, text)
				}
			}()
			redis.NewIdempotency(client, opts)
		}()
	}
}

// Processes that share a Redis share the answers.
func ExampleNewIdempotency() {
	ctx := context.Background()
	limits, err := redis.OpenStore(ctx, "redis://localhost:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	store := redis.NewIdempotency(limits.Client())

	state, _, err := store.Begin(ctx, claimOf("ann", "order 17"), 10*time.Second)
	fmt.Println(state == idempotency.Claimed, err)
}
