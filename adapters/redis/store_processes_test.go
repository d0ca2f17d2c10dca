package redis_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

const (
	processes       = 3
	processKeys     = 5
	processCapacity = 700
)

// Processes that ask for the same keys at the same time are admitted
// together exactly what one would be under a stopped clock.
func TestStoreManyProcesses(t *testing.T) {
	server := redistest.Start(t)
	for k, got := range admittedByProcesses(t, processes, processKeys, "TestStoreProcess", "WSKIT_REDIS="+server.Addr) {
		if got != processCapacity {
			t.Errorf("key %d: %d admitted of %d", k, got, processCapacity)
		}
	}
}

// admittedByProcesses has a test of this program run by n processes at the same
// time, and adds up what each prints for each key behind "admitted:".
func admittedByProcesses(t *testing.T, n, keys int, test, env string) []int64 {
	t.Helper()
	var mu sync.Mutex
	totals := make([]int64, keys)
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
			cmd.Env = append(os.Environ(), env)
			out, err := cmd.CombinedOutput()
			_, figures, _ := strings.Cut(string(out), "admitted:")
			words := strings.Fields(figures)
			if err != nil || len(words) < keys {
				t.Errorf("%v\n%s", err, out)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for k := range totals {
				var admitted int64
				if _, err := fmt.Sscan(words[k], &admitted); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				totals[k] += admitted
			}
		})
	}
	wait.Wait()
	return totals
}

// TestStoreProcess is one of the processes.
func TestStoreProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_REDIS")
	if addr == "" {
		t.Skip("one of the processes of TestStoreManyProcesses")
	}
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer client.Close()
	s := redis.NewStore(client, redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(1_795_219_200_000_007) }})
	p := limit.All(hourly(processCapacity), limit.FixedWindow{Limit: 10 * processCapacity, Window: 24 * 3600e9})
	var admitted [processKeys]atomic.Int64
	var wait sync.WaitGroup
	for i := range 32 {
		wait.Go(func() {
			for j := range processKeys * 60 {
				k := (i + j) % processKeys
				d, err := s.Take(context.Background(), []byte(fmt.Sprint("shared", k)), p, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted[k].Add(1)
				}
			}
		})
	}
	wait.Wait()
	text := "admitted:"
	for k := range admitted {
		text += fmt.Sprint(" ", admitted[k].Load())
	}
	fmt.Println(text)
}
