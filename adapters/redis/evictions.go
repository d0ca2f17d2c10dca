package redis

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// evictions detects that a server deletes keys because its memory is full: what they
// limited is forgotten, and no decision shows it. While a store is used, each of its
// servers is asked for its figures now and then, concurrently with decisions. The same goes for the logs of a
// Broker.
type evictions struct {
	log      *slog.Logger
	means    string // what is lost with the keys
	start    time.Time
	every    time.Duration
	count    atomic.Int64
	byServer sync.Map // server → *figuresOf
	logged   atomic.Bool
	refused  atomic.Bool
}

const (
	// lookEvery is the shortest time between two looks at a server.
	lookEvery = 10 * time.Second
	// lookTimeout bounds a look.
	lookTimeout = time.Second
)

// figuresOf is what a server said the last time.
type figuresOf struct {
	next    atomic.Int64 // when to ask again, in nanoseconds since start
	run     string       // names the process; of the goroutine that asks
	evicted int64
}

// look reads the figures of a server if it is time to, without waiting for them.
func (e *evictions) look(server any) {
	known, ok := e.byServer.Load(server)
	if !ok {
		known, _ = e.byServer.LoadOrStore(server, &figuresOf{})
	}
	f := known.(*figuresOf)
	now, next := int64(time.Since(e.start)), f.next.Load()
	if now < next || !f.next.CompareAndSwap(next, math.MaxInt64) {
		return // it is not, or they are being read
	}
	go func() {
		e.ask(server.(*goredis.Client), f)
		f.next.Store(int64(time.Since(e.start) + e.every))
	}()
}

func (e *evictions) ask(client *goredis.Client, f *figuresOf) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	text, err := client.WithTimeout(lookTimeout).Info(ctx).Result()
	if err != nil {
		if kindOf(err) == "NOPERM" && e.refused.CompareAndSwap(false, true) {
			e.log.Warn("wskit: redis: the server does not say whether it evicts keys", "server", client.Options().Addr, "error", err)
		}
		return // one that fails, the decisions show
	}
	run, evicted := field(text, "run_id"), number(field(text, "evicted_keys"))
	if run == f.run && evicted > f.evicted {
		e.count.Add(evicted - f.evicted)
		if e.logged.CompareAndSwap(false, true) {
			e.log.Error("wskit: redis: the server's memory is full and it evicts keys: "+e.means+"; set maxmemory-policy noeviction, and give it more memory",
				"server", client.Options().Addr, "evicted", evicted-f.evicted, "maxmemory_policy", field(text, "maxmemory_policy"))
		}
	}
	f.run, f.evicted = run, evicted
}

// field is a field of what INFO answers.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
