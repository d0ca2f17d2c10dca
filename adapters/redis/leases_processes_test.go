package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

const (
	holderLimit = 9
	holderStays = 2 // leases that each process holds for as long as it lives
	holderLease = 5 * time.Second
	holderUses  = "uses" // a hash: how many other leases each process uses now
	holderIDs   = "ids"  // a hash: the ids of the leases that stay, by the process and a number
	holderKey   = "wskit:conns:ann"
)

// newHolders is what the processes have of one limit, on a server or on the cluster of several.
func newHolders(addrs string) (*limit.ConcurrencyLimit, limit.Key, goredis.UniversalClient) {
	client := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: strings.Split(addrs, ","), ContextTimeoutEnabled: true})
	h := limit.NewConcurrencyLimit(redis.NewStore(client), limit.ConcurrencyOptions{
		Max: holderLimit, LeaseTime: holderLease,
		Limiter: limit.Options{Name: "conns", OnFailure: limit.FailClosed, Timeout: patience},
	})
	return h, limit.KeyOf("ann"), client
}

// Processes hold leases of one key and compete for what is left. One is killed: its
// leases are free once they are over, those of the others stay, and never
// are there more than the limit.
func TestLeasesOfAKilledProcess(t *testing.T) {
	t.Parallel()
	leasesOfAKilledProcess(t, redistest.Start(t).Addr, func() {})
}

// The same on a cluster, of which another server has the key after a while.
func TestLeasesOfAKilledProcessOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	client := c.Client()
	defer client.Close()
	leasesOfAKilledProcess(t, strings.Join(c.Addrs(), ","), func() {
		slot := int(client.ClusterKeySlot(t.Context(), holderKey+"~held").Val())
		from := c.Owner(slot)
		c.Move(slot, (from+1)%3, func() {})
		if c.Owner(slot) == from {
			t.Error("the key is where it was, so this test shows nothing of moves")
		}
	})
}

func leasesOfAKilledProcess(t *testing.T, addrs string, move func()) {
	t.Helper()
	h, key, client := newHolders(addrs)
	defer client.Close()
	names := []string{"a", "b", "killed"}
	var all []*holderProcess
	for _, name := range names {
		all = append(all, startHolder(t, addrs, name))
	}
	for _, p := range all {
		p.waitFor(t, "ready")
	}
	set := holderKey + "~held"
	score := func(name string) float64 {
		n, err := client.ZScore(t.Context(), set, client.HGet(t.Context(), holderIDs, name).Val()).Result()
		if err != nil && err != goredis.Nil {
			t.Fatal(err)
		}
		return n
	}
	alive := names
	look := func() {
		t.Helper()
		if n, err := h.Held(t.Context(), key); err != nil || n > holderLimit {
			t.Fatalf("%d leases are held, at most %d may be; %v", n, holderLimit, err)
		}
		uses, err := client.HGetAll(t.Context(), holderUses).Result()
		if err != nil {
			t.Fatal(err)
		}
		used := 0
		for _, name := range alive {
			n, _ := strconv.Atoi(uses[name])
			used += n + holderStays
			for i := range holderStays {
				if score(fmt.Sprint(name, i)) == 0 {
					t.Fatalf("a lease of the living process %s is gone", name)
				}
			}
		}
		if used > holderLimit {
			t.Fatalf("the processes use %d leases of %d", used, holderLimit)
		}
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		redistest.Eventually(t, what, func() bool { look(); return ok() })
	}
	quarrels := func() {
		t.Helper()
		before := client.HGet(t.Context(), holderUses, "denied").Val()
		eventually("processes are denied", func() bool { return client.HGet(t.Context(), holderUses, "denied").Val() != before })
	}
	quarrels()
	move()
	quarrels()

	alive = names[:2]
	all[2].kill()
	before := score("a0")
	eventually("the leases of the killed process come back", func() bool {
		now := float64(client.Time(t.Context()).Val().UnixMicro())
		return score("killed0") < now && score("killed1") < now
	})
	eventually("others have held theirs for longer than a lease", func() bool { return score("a0") > before+float64(holderLease.Microseconds()) })
	quarrels()

	// Now all is to be had but what the living hold.
	store := redis.NewStore(client)
	mine := func(i int) limit.Lease { return limit.Lease{Key: holderKey, ID: fmt.Sprint("mine", i)} }
	const free = holderLimit - 2*holderStays
	for i := range free {
		eventually("a lease that the killed process had is to be had", func() bool {
			return acquire(t, store, mine(i), holderLimit, time.Hour).Allowed
		})
	}
	if acquire(t, store, mine(free), holderLimit, time.Hour).Allowed {
		t.Errorf("more than %d leases are to be had while %d are held", free, 2*holderStays)
	}

	for _, p := range all[:2] {
		p.stop(t)
	}
	for i := range free {
		if err := store.Release(t.Context(), []limit.Lease{mine(i)}); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "no lease is held", func() bool { n, err := h.Held(t.Context(), key); return err == nil && n == 0 })
}

type holderProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	kill  func()
}

func startHolder(t *testing.T, addrs, name string) *holderProcess {
	t.Helper()
	p := &holderProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestHolderProcess$", "-test.v")}
	p.cmd.Env = append(os.Environ(), "WSKIT_REDIS_HOLDER="+addrs, "WSKIT_REDIS_NAME="+name)
	process.DieWithParent(p.cmd)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin, p.lines = in, bufio.NewScanner(out)
	p.kill = sync.OnceFunc(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	t.Cleanup(p.kill)
	return p
}

func (p *holderProcess) waitFor(t *testing.T, line string) {
	t.Helper()
	var said string
	for p.lines.Scan() {
		if p.lines.Text() == line {
			return
		}
		said += p.lines.Text() + "\n"
	}
	t.Fatalf("the process ended without %q\n%s", line, said)
}

// stop has the process end in an orderly way.
func (p *holderProcess) stop(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	p.waitFor(t, "PASS")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestHolderProcess is one of the processes.
func TestHolderProcess(t *testing.T) {
	addrs, name := os.Getenv("WSKIT_REDIS_HOLDER"), os.Getenv("WSKIT_REDIS_NAME")
	if addrs == "" {
		t.Skip("one of the processes of TestLeasesOfAKilledProcess and …OnACluster")
	}
	h, key, client := newHolders(addrs)
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	var stays []limit.Lease
	for i := range holderStays {
		lease, d, err := h.Acquire(ctx, key)
		for err == nil && !d.Allowed { // others use it for a moment
			lease, d, err = h.Acquire(ctx, key)
		}
		if err != nil {
			t.Fatal(err)
		}
		stays = append(stays, lease)
		client.HSet(ctx, holderIDs, fmt.Sprint(name, i), lease.ID)
	}
	for range 4 {
		wait.Go(func() {
			for ctx.Err() == nil {
				lease, d, err := h.Acquire(context.Background(), key)
				switch {
				case err != nil:
					t.Error(err)
					return
				case !d.Allowed:
					client.HIncrBy(context.Background(), holderUses, "denied", 1)
					continue
				}
				client.HIncrBy(context.Background(), holderUses, name, 1)
				client.HIncrBy(context.Background(), holderUses, name, -1)
				h.Release(lease)
			}
		})
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
	cancel()
	wait.Wait()
	for _, lease := range stays {
		h.Release(lease)
	}
	if err := h.Flush(context.Background()); err != nil {
		t.Error(err)
	}
}
