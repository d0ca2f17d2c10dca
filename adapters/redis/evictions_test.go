package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	wskiterrors "github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// fill writes keys that live for a day until the server has no room, or n.
func fill(t *testing.T, client *goredis.Client, n int) (err error) {
	t.Helper()
	value := strings.Repeat("x", 1000)
	for i := range n {
		if err = client.Set(t.Context(), fmt.Sprint("filler", i), value, 24*time.Hour).Err(); err != nil {
			return err
		}
	}
	return nil
}

// room is a little more memory than an empty server takes.
func room(t *testing.T, server *redistest.Server, policy string) {
	t.Helper()
	server.Do("CONFIG", "SET", "maxmemory-policy", policy)
	server.Do("CONFIG", "SET", "maxmemory", server.UsedMemory()+2<<20)
}

// A server that evicts keys loses limits, by whatever rule it picks them. That is counted, and
// logged once.
func TestEvictionsAreReported(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"volatile-ttl", "allkeys-lru"} {
		t.Run(policy, func(t *testing.T) {
			server := redistest.Start(t)
			logger, logged := newLog()
			client := storeClient(t, server.Addr)
			s := redis.NewStore(client, redis.StoreOptions{RememberedKeys: asking, Logger: logger})
			redis.LookEvery(s, time.Millisecond)
			room(t, server, policy)
			p := limit.FixedWindow{Limit: 5, Window: 720 * time.Hour}
			ask := func() {
				if _, err := s.Take(t.Context(), []byte("k"), p, 1); err != nil {
					t.Fatal(err)
				}
			}
			calls := server.Calls("info")
			redistest.Eventually(t, "the server is asked", func() bool { ask(); return server.Calls("info") > calls+5 })
			if n := s.Stats().Evicted; n != 0 || logged() != "" {
				t.Fatalf("%d keys are evicted by a server with room\n%s", n, logged())
			}
			if err := fill(t, client, 5000); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, "evictions are counted", func() bool { ask(); return s.Stats().Evicted > 0 })
			if err := fill(t, client, 5000); err != nil {
				t.Fatal(err)
			}
			before := s.Stats().Evicted
			redistest.Eventually(t, "more are counted", func() bool { ask(); return s.Stats().Evicted > before })
			text := logged()
			if strings.Count(text, "\n") != 1 || !strings.Contains(text, "evicts keys") || !strings.Contains(text, "maxmemory_policy="+policy) {
				t.Errorf("the log is\n%s", text)
			}
		})
	}
}

// A server without the right to INFO does not report evictions, which is logged.
func TestEvictionsThatCannotBeSeenAreReported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "limits", "on", ">password", "~*", "-@all", "+evalsha", "+eval", "+get", "+set", "+time")
	logger, logged := newLog()
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "limits", Password: "password"})
	t.Cleanup(func() { _ = client.Close() })
	s := redis.NewStore(client, redis.StoreOptions{Logger: logger})
	redis.LookEvery(s, time.Millisecond)
	redistest.Eventually(t, "it is logged", func() bool {
		if _, err := s.Take(t.Context(), []byte("k"), hourly(5), 1); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(logged(), "NOPERM")
	})
}

// Under noeviction a full server refuses what is to be written: nothing is forgotten, the
// failure policies decide, and all of it is seen.
func TestAFullServerFailsVisibly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := storeClient(t, server.Addr)
	room(t, server, "noeviction")
	const most = 10
	p := limit.FixedWindow{Limit: most, Window: 24 * time.Hour}
	logger, logged := newLog()
	newLimiter := func(name string, f limit.Failure) (redis.Store, *limit.Limiter) {
		s := redis.NewStore(client, redis.StoreOptions{RememberedKeys: asking, Logger: logger})
		redis.LookEvery(s, time.Millisecond)
		return s, limit.New(s, p, limit.Options{Name: name, OnFailure: f, Timeout: time.Minute, Logger: logger})
	}
	take := func(l *limit.Limiter, times int) (admitted, failed int) {
		t.Helper()
		for range times {
			d, err := l.Take(t.Context(), limit.KeyOf("ann"), 1)
			switch {
			case wskiterrors.CodeOf(err) == wskiterrors.Unavailable:
				failed++
			case err != nil:
				t.Fatal(err)
			case d.Allowed:
				admitted++
			}
		}
		return admitted, failed
	}
	closedStore, closed := newLimiter("closed", limit.FailClosed)
	localStore, local := newLimiter("local", limit.FailLocal)
	for _, l := range []*limit.Limiter{closed, local} {
		if n, _ := take(l, 4); n != 4 {
			t.Fatalf("%d of 4 are admitted", n)
		}
	}
	if err := fill(t, client, 100_000); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("the server is not full: %v", err)
	}
	server.Do("CONFIG", "SET", "maxmemory", server.UsedMemory()-1<<20) // it stays full when buffers are freed
	if n, failed := take(closed, 30); n != 0 || failed != 30 {
		t.Errorf("FailClosed: %d are admitted and %d fail of 30", n, failed)
	}
	if n, failed := take(local, 30); n != most || failed != 0 {
		t.Errorf("FailLocal: %d are admitted and %d fail of 30; in this process %d may be", n, failed, most)
	}
	for _, s := range []redis.Store{closedStore, localStore} {
		if st := s.Stats(); st.Errors["OOM"] == 0 || st.Errors["OOM"] != st.Failures || st.Evicted != 0 {
			t.Errorf("%+v", st)
		}
	}
	if !closed.Stats().Degraded || local.Stats().FailedOver != 30 {
		t.Errorf("%+v, %+v", closed.Stats(), local.Stats())
	}
	redistest.Eventually(t, "the cause is logged", func() bool { return strings.Count(logged(), "OOM") == 2 })

	// With room again, nothing has been forgotten.
	server.Do("CONFIG", "SET", "maxmemory", 0)
	redistest.Eventually(t, "the limiter is back at its store", func() bool {
		_, err := closed.Peek(t.Context(), limit.KeyOf("ann"), 1)
		return err == nil && !closed.Stats().Degraded
	})
	if n, failed := take(closed, 30); n != most-4 || failed != 0 {
		t.Errorf("with room again %d are admitted and %d fail, %d are left", n, failed, most-4)
	}
}

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	for want, errs := range map[string][]error{
		"OOM": {
			refusal("OOM command not allowed when used memory > 'maxmemory'. script: f, on @user_script:58."),
			refusal("ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'."),
		},
		"READONLY":   {fmt.Errorf("redis: %w", refusal("READONLY You can't write against a read only replica."))},
		"ERR":        {refusal("ERR unknown command"), refusal("what is this"), refusal("")},
		"timeout":    {fmt.Errorf("redis: %w", context.DeadlineExceeded)},
		"canceled":   {context.Canceled},
		"connection": {io.EOF, goredis.ErrClosed},
		"other":      {errors.New("the script replied nonsense")},
	} {
		for _, err := range errs {
			if got := redis.KindOf(err); got != want {
				t.Errorf("%v is of the kind %q, want %q", err, got, want)
			}
		}
	}
}

// No line of the log holds the password that Redis did not accept.
func TestTheCauseIsLoggedWithoutPasswords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right")
	logger, logged := newLog()
	const password = "not-the-right-one"
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, Password: password})
	t.Cleanup(func() { _ = client.Close() })
	called := make(chan wskiterrors.Outage, 1)
	l := limit.New(redis.NewStore(client, redis.StoreOptions{Logger: logger}), hourly(5), limit.Options{
		Name: "n", Timeout: patience, Logger: logger, OnOutage: func(o wskiterrors.Outage) { called <- o },
	})
	for range 5 {
		if _, err := l.Take(t.Context(), limit.KeyOf("ann"), 1); err != nil {
			t.Fatal(err)
		}
	}
	got := <-called
	if strings.Count(logged(), "WRONGPASS") != 1 || !strings.Contains(got.Err.Error(), "WRONGPASS") || strings.Contains(logged()+got.Err.Error(), password) {
		t.Errorf("the error is %v, and the log is\n%s", got.Err, logged())
	}
}
