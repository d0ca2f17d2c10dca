package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/redistest"
)

// caller is a client that sends requests "place" and counts the answers.
type caller struct {
	ws               *websocket.Conn
	id               atomic.Int64
	replied, refused *atomic.Int64
	answered         chan string // ids
	done             chan struct{}
}

func newCaller(ctx context.Context, s *Server, replied, refused *atomic.Int64) (*caller, error) {
	ws, _, err := websocket.Dial(ctx, "ws://"+s.Config.Addr, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer ann"}}})
	if err != nil {
		return nil, err
	}
	c := &caller{ws: ws, replied: replied, refused: refused, answered: make(chan string, 1000), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for {
			_, text, err := ws.Read(context.Background())
			if err != nil {
				return
			}
			var f struct {
				Meta struct{ CorrelationID string }
			}
			_ = json.Unmarshal(text, &f)
			if strings.Contains(string(text), `"in_flight"`) {
				c.refused.Add(1)
			} else {
				c.replied.Add(1)
			}
			select {
			case c.answered <- f.Meta.CorrelationID:
			default: // the test does not wait for this one
			}
		}
	}()
	return c, nil
}

// send sends a request, and perhaps aborts it.
func (c *caller) send(ctx context.Context, p Place, abort bool) error {
	id := strconv.FormatInt(c.id.Add(1), 10)
	payload, _ := json.Marshal(p)
	err := c.ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"place","meta":{"correlationId":%q},"payload":%s}`, id, payload))
	if err == nil && abort {
		err = c.ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"$ws:abort","meta":{"correlationId":%q}}`, id))
	}
	return err
}

// compete sends requests one after the other until ctx ends, on new connections now and then.
func compete(ctx context.Context, s *Server, random *rand.Rand, replied, refused *atomic.Int64) error {
	for ctx.Err() == nil {
		c, err := newCaller(ctx, s, replied, refused)
		if err != nil {
			return err
		}
		for n := random.IntN(20); n >= 0 && ctx.Err() == nil; n-- {
			p := Place{End: []string{"", "error", "panic"}[random.IntN(3)], Ms: random.IntN(3)}
			if err := c.send(ctx, p, random.IntN(4) == 0); err != nil {
				return err
			}
			select {
			case <-c.answered:
			case <-ctx.Done():
			}
		}
		_ = c.send(ctx, Place{Ms: 2}, false) // is handled while its connection ends
		_ = c.ws.CloseNow()
	}
	return nil
}

// placesRedis reads what handlers and leases say.
type placesRedis struct{ *redistest.Server }

// running counts the handlers of all servers, or of one.
func (r placesRedis) running(servers ...*Server) (n int) {
	all, _ := r.Client().HGetAll(context.Background(), placeRunning).Result()
	for _, of := range all {
		if slices.ContainsFunc(servers, func(s *Server) bool { return s.Config.Addr == of }) {
			n++
		}
	}
	return n
}

// killed forgets the handlers of a killed server, and the most that ran.
func (r placesRedis) killed(s *Server) {
	all, _ := r.Client().HGetAll(context.Background(), placeRunning).Result()
	for handler, of := range all {
		if of == s.Config.Addr {
			r.Do("HSET", placeRunning, handler, placeEnded)
		}
	}
	r.Do("DEL", placePeak)
}

func (r placesRedis) peak() int {
	n, _ := r.Client().Get(context.Background(), placePeak).Int()
	return n
}

func (r placesRedis) held() int64 { return placesUnder(r.Server, placeKey) }

// fill has a caller send requests that wait, until as many handlers of its server run.
func (r placesRedis) fill(t *testing.T, c *caller, s *Server, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d handlers run", want), func() bool {
		before, refused := r.running(s), c.refused.Load()
		if before == want {
			return true
		}
		if err := c.send(t.Context(), Place{Wait: true}, false); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request is handled or refused", func() bool { return r.running(s) > before || c.refused.Load() > refused })
		return r.running(s) == want
	})
}

// Handlers of two processes, which end in all ways, share the places of one key: never more run
// than there are. One process is killed: its places come back within a lease. The other one
// shuts down: its places are free when it has ended.
func TestPlacesAcrossProcesses(t *testing.T) {
	t.Parallel()
	redis := placesRedis{redistest.Start(t)}
	config := testConfig(t, redis.Server)
	config.Places = PlacesConfig{Lease: 6 * time.Second, Timeout: hangGuard}
	one, two := StartServer(t, config), StartServer(t, config)

	var replied, refused atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			err := compete(ctx, []*Server{one, two}[i%2], rand.New(rand.NewPCG(7, uint64(i))), &replied, &refused)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "requests are handled and refused", func() bool { return replied.Load() > 100 && refused.Load() > 30 })
	stop()
	clients.Wait()
	eventually(t, "no handler runs and no place is held", func() bool { return redis.running(one, two) == 0 && redis.held() == 0 })
	if p := redis.peak(); p > placeMax {
		t.Fatalf("%d handlers ran at once; at most %d may", p, placeMax)
	}

	replied.Store(0)
	p, err := newCaller(t.Context(), one, &replied, new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	q, err := newCaller(t.Context(), two, new(atomic.Int64), new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	redis.fill(t, p, one, placeMax)
	if err := q.send(t.Context(), Place{Wait: true}, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a request over the limit is refused", func() bool { return q.refused.Load() == 1 })

	one.Kill()
	last, err := redis.Client().ZRangeWithScores(t.Context(), placeKey, -1, -1).Result()
	if err != nil || len(last) != 1 {
		t.Fatalf("after the process was killed, its last place is %v, %v", last, err)
	}
	now, err := redis.Client().Time(t.Context()).Result()
	if err != nil || last[0].Score > float64(now.Add(config.Places.Lease).UnixMicro()) {
		t.Errorf("after the process was killed, its last place is held until %v; at most a lease from %d, %v", last, now.UnixMicro(), err)
	}
	redis.killed(one)
	redis.fill(t, q, two, placeMax)
	redis.Do("SET", placeGo, "1")
	eventually(t, "all handlers have ended and no place is held", func() bool { return redis.running(two) == 0 && redis.held() == 0 })
	if p := redis.peak(); p != placeMax {
		t.Errorf("%d handlers ran at once, want %d", p, placeMax)
	}

	redis.Do("DEL", placeGo)
	redis.fill(t, q, two, placeMax)
	ended := make(chan error)
	go func() { ended <- two.Terminate() }()
	redis.Do("SET", placeGo, "1")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n, running := redis.held(), redis.running(two); n != 0 || running != 0 {
		t.Errorf("%d places are held, and %d handlers run, after the process has shut down", n, running)
	}
}

// While Redis does not answer, each process has the places for itself, handlers end as they should,
// and those that run keep their places: when Redis is back, they are held again, and all others free.
func TestPlacesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := placesRedis{redistest.Start(t)}
	config := testConfig(t, redis.Server)
	config.Places = PlacesConfig{Lease: 2 * time.Second, Timeout: time.Second}
	s := StartServer(t, config)
	var replied, refused atomic.Int64
	c, err := newCaller(t.Context(), s, &replied, &refused)
	if err != nil {
		t.Fatal(err)
	}
	redis.fill(t, c, s, 1)
	redis.Stall()
	for n := range int64(4) { // each waits for Redis, for the time of the limit at most
		if err := c.send(t.Context(), Place{Uncounted: true}, false); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a request is handled without Redis", func() bool { return replied.Load() == n+1 })
	}
	redis.Resume()
	eventually(t, "one place is held", func() bool { return redis.held() == 1 })
	redis.fill(t, c, s, placeMax)
	before := refused.Load() // some, if places of calls that had timed out were held for a lease
	if err := c.send(t.Context(), Place{Wait: true}, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a request over the limit is refused", func() bool { return refused.Load() == before+1 })
	redis.Do("SET", placeGo, "1")
	eventually(t, "all handlers have ended and no place is held", func() bool { return redis.running(s) == 0 && redis.held() == 0 })
}
