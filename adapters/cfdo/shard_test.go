package cfdo_test

import (
	"fmt"
	"testing"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// unkeyed is a hash without a secret, which could be computed by any client: FNV-1a
// with the finalizer of MurmurHash3.
func unkeyed(text string) uint32 {
	h := uint32(0x811c9dc5)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 0x01000193
	}
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// Keys that a client chose so that they all go to one shard by a hash without a key are
// spread evenly, and under another secret otherwise.
func TestShardsCannotBeAimedAt(t *testing.T) {
	t.Parallel()
	const shards, keys = 8, 640
	var aimed []string
	for i := 0; len(aimed) < keys; i++ {
		if key := fmt.Sprint("wskit:messages:user:", i); unkeyed(key)%shards == 3 {
			aimed = append(aimed, key)
		}
	}
	spread := func(secret string) (rows [shards]int) {
		w := workerdtest.Start(t, workerdtest.Config{Env: map[string]string{"SECRET": secret, "SHARDS": fmt.Sprint(shards)}})
		s, err := cfdo.Open(w.URL, secret, cfdo.Options{Timeout: poll.Guard})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i := 0; i < keys; i += 64 {
			var requests []limit.Ask
			for _, key := range aimed[i:min(i+64, keys)] {
				requests = append(requests, limit.Ask{Key: []byte(key), Policy: ten, Cost: 1})
			}
			if err := s.TakeMany(ctx, requests); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rows {
			rows[i] = w.Inspect(fmt.Sprint("shard:", i)).Rows
		}
		return rows
	}
	first, second := spread("one"), spread("another")
	for i, n := range first {
		if n < keys/shards/2 || n > keys/shards*2 {
			t.Errorf("%d of %d keys are in shard %d of %d: %v", n, keys, i, shards, first)
		}
	}
	if first == second {
		t.Errorf("two secrets spread the keys alike: %v", first)
	}
}
