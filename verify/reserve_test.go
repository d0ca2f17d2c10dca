package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// most is the limit of each key.
const most = 100

// policies have that limit, in a window that is longer than any test, and in a bucket. With a bucket
// the clock stands still: what flows in while work is done is not given back, so that no sequence of
// numbers explains it.
var policies = []limit.Policy{
	limit.FixedWindow{Limit: most, Window: 9999 * 24 * time.Hour},
	limit.TokenBucket{Capacity: most, Refill: 1, Per: 6 * time.Hour},
}

// pause waits in real time, between what processes do: they are killed at any point of their work, and reservations of
// others come between a reservation and its end. The check is of whatever history there is then.
func pause(d time.Duration) { time.Sleep(d) }

func standing() time.Time { return time.UnixMicro(1_795_219_200_000_007) }

// event is one call, as the process that makes it writes it down: first without and then with its
// result. A call without result was cut off, or failed: it may have been carried out, at any time
// since, or never.
type event struct {
	ID         string
	Client     int
	Key        int
	Settle     bool
	Cost       int64 // what is reserved
	Actual     int64 // of Settle
	Call, Done int64 // times; Done is 0 without a result

	Allowed bool  // the result of a reservation
	Left    int64 // what remains after it
	Over    int64 // the result of Settle
}

// sequential is the specification: a number for each key.
var sequential = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[int][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(event).Key
			byKey[key] = append(byKey[key], o)
		}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		used, e := state.(int64), input.(event)
		unknown := e.Done == 0
		if !e.Settle {
			fits := used+e.Cost <= most
			if fits {
				used += e.Cost
			}
			return unknown || e.Allowed == fits && e.Left == most-used, used
		}
		if e.Actual < e.Cost {
			return unknown || e.Over == 0, used - (e.Cost - e.Actual)
		}
		charged := min(e.Actual-e.Cost, most-used)
		return unknown || e.Over == e.Actual-e.Cost-charged, used + charged
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// check checks a history, and that it is one worth checking.
func check(t *testing.T, events []event) {
	t.Helper()
	var history []porcupine.Operation
	unknown, denied, more := 0, 0, 0
	for _, e := range events {
		o := porcupine.Operation{ClientId: e.Client, Input: e, Call: e.Call, Return: e.Done}
		switch {
		case e.Done == 0:
			o.Return = math.MaxInt64
			unknown++
		case !e.Settle && !e.Allowed:
			denied++
		case e.Over > 0:
			more++
		}
		history = append(history, o)
	}
	t.Logf("%d calls, %d reservations denied, %d settled with more than fits, %d without a result", len(events), denied, more, unknown)
	if len(events) < 400 || denied < 20 || more < 5 {
		t.Error("the history shows too little")
	}
	if !porcupine.CheckOperations(sequential, history) {
		for _, e := range events {
			t.Logf("%+v", e)
		}
		t.Error("no order of the calls explains their results")
	}
}

const (
	keys    = 3 // at a time: after some calls come other keys, before all of a limit is used up
	callers = 3 // in a process
	calls   = 80
)

// work reserves and settles, and hands each call to note twice. Some reservations are never
// settled.
func work(store limit.Store, client, firstKey int, seed uint64, note func(event)) {
	policy := policies[firstKey%2]
	if _, ok := store.(cfdo.Store); ok {
		policy = policies[0] // its clock cannot be given
	}
	limiter := limit.New(store, policy, limit.Options{Name: "verify", Timeout: 2 * time.Second, OnFailure: limit.FailClosed})
	random := rand.New(rand.NewPCG(seed, uint64(client)))
	ctx := context.Background()
	for n := 0; n < calls; n++ {
		e := event{
			ID: fmt.Sprintf("%d-%d-%d", os.Getpid(), client, n), Client: client, Key: firstKey + n/8*keys + random.IntN(keys),
			Cost: 1 + random.Int64N(30), Call: time.Now().UnixNano(),
		}
		note(e)
		r, d, err := limiter.Reserve(ctx, limit.KeyOf(strconv.Itoa(e.Key)), e.Cost)
		if err != nil {
			pause(20 * time.Millisecond) // the server is away
			continue
		}
		e.Done, e.Allowed, e.Left = time.Now().UnixNano(), d.Allowed, d.Remaining
		if note(e); !d.Allowed || random.IntN(40) == 0 {
			continue
		}
		if random.IntN(3) == 0 {
			pause(time.Duration(random.IntN(1000)) * time.Microsecond)
		}
		s := event{
			ID: e.ID + "s", Client: client, Key: e.Key, Settle: true, Cost: e.Cost, Call: time.Now().UnixNano(),
		}
		// Mostly all is given back, so that there is something to reserve.
		switch random.IntN(4) {
		case 0:
			s.Actual = random.Int64N(2)
		case 1:
			s.Actual = e.Cost + random.Int64N(60)
		}
		note(s)
		s.Over, err = r.Settle(ctx, s.Actual)
		if err != nil {
			continue
		}
		s.Done = time.Now().UnixNano()
		note(s)
	}
}

func TestReservationsInMemory(t *testing.T) {
	for seed := range uint64(20) {
		store := memory.NewStore(memory.Options{Now: standing})
		h := &collected{}
		var wait sync.WaitGroup
		for client := range 2 * callers {
			wait.Go(func() { work(store, client, int(seed%2), seed, h.note) })
		}
		wait.Wait()
		check(t, h.events())
	}
}

func TestReservationsOnRedis(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	checkProcesses(t, "WSKIT_REDIS="+server.Addr, func() { server.Kill(); server.Run() })
}

func TestReservationsInDurableObjects(t *testing.T) {
	server := workerdtest.Start(t, workerdtest.Config{})
	checkProcesses(t, "WSKIT_WORKER="+server.URL, func() { server.Kill(); server.Run() })
}

// checkProcesses has processes reserve and settle. Two of them are killed and replaced, again and
// again, and so is the server.
func checkProcesses(t *testing.T, env string, restart func()) {
	dir := t.TempDir()
	const rounds = 6
	for round := range rounds {
		var live []*exec.Cmd
		for n := range 3 {
			child := exec.Command(os.Args[0], "-test.run=^TestReservingProcess$")
			child.Env = append(os.Environ(), env,
				"WSKIT_HISTORY="+filepath.Join(dir, fmt.Sprint(round, "-", n)), fmt.Sprint("WSKIT_CLIENT=", 30*round+10*n))
			process.DieWithParent(child)
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			live = append(live, child)
		}
		some := func() time.Duration { return time.Duration(50+rand.IntN(100)) * time.Millisecond }
		pause(some())
		_ = live[0].Process.Kill()
		pause(some())
		if round%2 == 1 {
			restart()
		}
		_ = live[1].Process.Kill()
		for n, child := range live {
			if err := child.Wait(); n == 2 && err != nil {
				t.Error(err)
			}
		}
	}
	h := &collected{}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be cut off
				h.note(e)
			}
		}
		f.Close()
	}
	check(t, h.events())
}

// TestReservingProcess is one of the processes. It writes down what it does before it does it.
func TestReservingProcess(t *testing.T) {
	name := os.Getenv("WSKIT_HISTORY")
	if name == "" {
		t.Skip("one of the processes of checkProcesses")
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var store limit.Store
	if addr := os.Getenv("WSKIT_REDIS"); addr != "" {
		client := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1})
		defer client.Close()
		store = redis.NewStore(client, redis.StoreOptions{RememberedKeys: -1, Now: standing})
	} else if store, err = cfdo.Open(os.Getenv("WSKIT_WORKER"), workerdtest.Secret, cfdo.Options{Remember: -1}); err != nil {
		t.Fatal(err)
	}
	first, _ := strconv.Atoi(os.Getenv("WSKIT_CLIENT"))
	firstKey := first / 30 * 1001 // each round has others
	var mu sync.Mutex
	var wait sync.WaitGroup
	for n := range callers {
		wait.Go(func() {
			work(store, first+n, firstKey, uint64(os.Getpid()), func(e event) {
				line, _ := json.Marshal(e)
				mu.Lock()
				defer mu.Unlock()
				_, _ = f.Write(append(line, '\n'))
			})
		})
	}
	wait.Wait()
}

// collected is a history.
type collected struct {
	mu    sync.Mutex
	byID  map[string]event
	order []string
}

// note adds a call, or its result.
func (c *collected) note(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]event{}
	}
	if _, known := c.byID[e.ID]; !known {
		c.order = append(c.order, e.ID)
	}
	c.byID[e.ID] = e
}

func (c *collected) events() (all []event) {
	for _, id := range c.order {
		all = append(all, c.byID[id])
	}
	return all
}

// The checker finds what is wrong: in a history that is right, each change of one result.
func TestCheckerFindsWrongResults(t *testing.T) {
	right := []event{
		{ID: "1", Cost: 60, Call: 1, Done: 2, Allowed: true, Left: 40},
		{ID: "2", Cost: 60, Call: 3, Done: 4, Left: 40},
		{ID: "3", Settle: true, Cost: 60, Actual: 30, Call: 5, Done: 6},
		{ID: "4", Cost: 60, Call: 7, Done: 8, Allowed: true, Left: 10},
		{ID: "5", Settle: true, Cost: 60, Actual: 80, Call: 9, Done: 10, Over: 10},
	}
	ok := func(events []event) bool {
		var history []porcupine.Operation
		for _, e := range events {
			history = append(history, porcupine.Operation{Input: e, Call: e.Call, Return: e.Done})
		}
		return porcupine.CheckOperations(sequential, history)
	}
	if !ok(right) {
		t.Fatal("a history that is right is refused")
	}
	for name, change := range map[string]func([]event){
		"admitted too much":    func(e []event) { e[1].Allowed, e[1].Left = true, 0 },
		"denied what fits":     func(e []event) { e[3].Allowed, e[3].Left = false, 70 },
		"gave back too little": func(e []event) { e[3].Left = 9 },
		"charged too little":   func(e []event) { e[4].Over = 11 },
		"charged too much":     func(e []event) { e[4].Over = 9 },
	} {
		wrong := append([]event(nil), right...)
		if change(wrong); ok(wrong) {
			t.Error(strings.TrimSpace(name) + ": not found")
		}
	}
}
