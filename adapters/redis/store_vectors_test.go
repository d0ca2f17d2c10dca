package redis_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/vectors"
	"github.com/wskit/wskit/limit"
)

// The published timelines, number for number: what is answered, and what the script
// keeps.
func TestStoreReplaysTheVectors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := storeClient(t, server.Addr)
	steps := 0
	for name, f := range vectors.Read(t, "../../limit/testdata") {
		for i, l := range f.Timelines {
			plans := l.Plans(t)
			var now int64
			s := redis.NewStore(client, redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(now) }, RememberedKeys: -1})
			key := name + strconv.Itoa(i) + ":"
			for j, step := range l.Steps {
				now = step.Now
				steps++
				if !replay(t, &step, s, client, key, plans) {
					t.Fatalf("%s: %s, step %d", name, l.Name, j)
				}
			}
		}
	}
	t.Logf("%d steps", steps)
}

// replay replays a step, and compares what the script keeps.
func replay(t *testing.T, v *vectors.Step, s redis.Store, client *goredis.Client, key string, plans []*limit.Plan) (ok bool) {
	t.Helper()
	if !v.Replay(t, s, key, plans) {
		return false
	}
	if v.Op != "take" && v.Op != "refund" {
		return true
	}
	kept, err := client.Get(t.Context(), key+"~"+plans[v.Policy].Shape()).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Error(err)
		return false
	}
	kept, _, _ = strings.Cut(kept, "!") // of a reset
	if state := asks.ReadNumbers(nil, kept); !v.Kept(state) {
		t.Errorf("after %s the state is %v, want %v", v.Op, state, v.State)
		return false
	}
	return true
}
