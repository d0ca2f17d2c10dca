package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/limit"
)

// servers is a topology of servers that all fail, and of which one key after the other
// is no longer found, as while a cluster fails over.
type servers struct {
	topology
	found   int64 // how many lookups succeed
	lookups atomic.Int64
}

var errGone = errors.New("no server has the key")

func (s *servers) server(_ context.Context, key string) (any, error) {
	if s.lookups.Add(1) > s.found {
		return nil, errGone
	}
	return key, nil
}
func (s *servers) script(_ context.Context, key string) (any, error) { return key, nil }
func (s *servers) keepsDeadlines() bool                              { return true }
func (s *servers) run(_ context.Context, server any, commands []goredis.Cmder) {
	for _, c := range commands {
		c.SetErr(fmt.Errorf("%v refused the connection", server))
	}
}

// Several servers fail at the same time, also while others are still looked for: every
// failure is in the error.
func TestSeveralServersFail(t *testing.T) {
	t.Parallel()
	policy := limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour}
	var requests []limit.Ask
	for i := range 8 {
		requests = append(requests, limit.Ask{Key: fmt.Append(nil, "k", i), Policy: policy, Cost: 1})
	}
	client := goredis.NewClient(&goredis.Options{})
	defer client.Close()
	for found := range int64(3 * len(requests)) {
		s := storeOn(client, StoreOptions{})
		where := &servers{found: found}
		s.where = where
		err := s.TakeMany(t.Context(), requests)
		if found < int64(len(requests)) {
			if !errors.Is(err, errGone) {
				t.Errorf("after %d lookups no server is found: %v", found, err)
			}
			continue
		}
		var all interface{ Unwrap() []error }
		if !errors.As(err, &all) || len(all.Unwrap()) != len(requests) {
			t.Errorf("%d lookups: %d servers failed, the error is %v", found, len(requests), err)
		}
	}
}
