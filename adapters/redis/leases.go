package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/limit"
)

// Leases are kept in a sorted set for each key, of IDs by the instants at which they end,
// under the key with "~held" behind it, which is the shape of no limit. Each operation is
// one script on one key, leases.lua, by the clock of the server that has the key. A lease
// is kept for limit.ClockTolerance longer than it lasts. One with an ID of 26 bytes takes
// about 130 bytes among many under its key, and about 200 alone.

func leaseKey(key string) string { return key + "~held" }

// A leaseCall is one run of leases.lua, and what it replied.
type leaseCall struct {
	operation string
	key       string // in Redis
	time      int64  // of the lease, in microseconds
	most      int64
	ids       []string

	now, held, first int64
	listed           []string // IDs, of "held"
	err              error
}

const (
	// idsAtOnce is how many leases of a key go into one script at most. It bounds how
	// long a script keeps a server from others.
	idsAtOnce = 256
	// leaseCallsAtOnce is how many scripts of one caller share a round trip at most.
	leaseCallsAtOnce = 256
)

// Acquire implements [limit.LeaseStore].
func (s *store) Acquire(ctx context.Context, lease limit.Lease, most int64, leaseTime time.Duration) (d limit.Decision, err error) {
	if err := leasecheck.Check(most, leaseTime); err != nil {
		return d, err
	}
	h := leaseCall{operation: "acquire", key: leaseKey(lease.Key), time: micros(leaseTime), most: most, ids: []string{lease.ID}}
	if err := s.callLease(ctx, &h); err != nil {
		return d, err
	}
	d = limit.Decision{Allowed: h.held < most, Limit: most, Remaining: max(0, most-h.held-1), At: h.now}
	if h.first > h.now {
		d.ResetAfter = time.Duration(h.first-h.now) * time.Microsecond
	}
	return d, nil
}

// Renew implements [limit.LeaseStore]. Leases of one key are renewed by one script,
// scripts for one server share their round trips, and servers are called at the same
// time. The error is one of those there were: what another server has is renewed.
func (s *store) Renew(ctx context.Context, leases []limit.Lease, leaseTime time.Duration) error {
	if err := leasecheck.Check(1, leaseTime); err != nil {
		return err
	}
	return s.callLeases(ctx, leaseCall{operation: "renew", time: micros(leaseTime)}, leases)
}

// Release implements [limit.LeaseStore], in the way of Renew.
func (s *store) Release(ctx context.Context, leases []limit.Lease) error {
	return s.callLeases(ctx, leaseCall{operation: "release"}, leases)
}

// Held implements [limit.LeaseStore].
func (s *store) Held(ctx context.Context, key string, n int) (count int64, ids []string, err error) {
	h := leaseCall{operation: "held", key: leaseKey(key), most: int64(max(n, 0))}
	err = s.callLease(ctx, &h)
	return h.held, h.listed, err
}

// micros cuts off what would not be exact in a double once the instant is added:
// 142 years.
func micros(lease time.Duration) int64 { return min(lease.Microseconds(), maxSpan) }

// callLease runs one script.
func (s *store) callLease(ctx context.Context, h *leaseCall) error {
	server, err := s.where.server(ctx, h.key)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	one := []leaseCall{*h}
	err = s.callLeasesOn(ctx, server, one)
	*h = one[0]
	return err
}

// callLeases does the same for all leases, with as few scripts as they have keys.
func (s *store) callLeases(ctx context.Context, what leaseCall, leases []limit.Lease) error {
	byKey := make(map[string][]string)
	for _, lease := range leases {
		byKey[lease.Key] = append(byKey[lease.Key], lease.ID)
	}
	var failed error
	byServer := make(map[any][]leaseCall)
	for key, ids := range byKey {
		what.key = leaseKey(key)
		server, err := s.where.server(ctx, what.key)
		if err != nil {
			failed = fmt.Errorf("redis: %w", err)
			continue
		}
		for what.ids = range slices.Chunk(ids, idsAtOnce) {
			byServer[server] = append(byServer[server], what)
		}
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for server, calls := range byServer {
		wait.Go(func() {
			for part := range slices.Chunk(calls, leaseCallsAtOnce) {
				if err := s.callLeasesOn(ctx, server, part); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = err
					return
				}
			}
		})
	}
	wait.Wait()
	return failed
}

// callLeasesOn runs scripts on one server in one round trip.
func (s *store) callLeasesOn(ctx context.Context, server any, calls []leaseCall) error {
	lane := s.leases.to(server)
	item := lane.Item()
	item.Value = append(item.Value[:0], calls...)
	if err := lane.Do(ctx, item); err != nil {
		return err
	}
	copy(calls, item.Value)
	clear(item.Value)
	lane.Free(item)
	return nil
}

// leaseTrip sends a batch of calls to a server in one round trip, and those whose
// script the server did not know in another. The client may repeat them as it is
// made to: what was done already is done once.
func (s *store) leaseTrip(ctx context.Context, server any, batch []*batch.Item[[]leaseCall]) {
	var all []*leaseCall
	for _, item := range batch {
		for i := range item.Value {
			all = append(all, &item.Value[i])
		}
	}
	s.figures.trips.Add(1)
	s.figures.sent.Add(int64(len(all)))
	start := time.Now()
	s.runLeaseCalls(ctx, server, all, "evalsha", leaseScriptID)
	var unknown []*leaseCall
	for _, h := range all {
		if h.err != nil && goredis.HasErrorPrefix(h.err, "NOSCRIPT") {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) > 0 {
		s.figures.reloads.Add(int64(len(unknown)))
		s.runLeaseCalls(ctx, server, unknown, "eval", leaseScript)
	}
	s.evictions.look(server)
	for _, item := range batch {
		for _, h := range item.Value {
			if h.err != nil {
				s.figures.failures.Add(1)
				s.errors.add(h.err, 1)
				item.Err = s.failed(ctx, h.err, isAnswer(h.err), time.Since(start))
			}
		}
	}
}

// runLeaseCalls runs scripts, by their name or whole.
func (s *store) runLeaseCalls(ctx context.Context, server any, calls []*leaseCall, command, which string) {
	now := any("")
	if s.now != nil {
		now = s.now()
	}
	commands := make([]goredis.Cmder, len(calls))
	for i, h := range calls {
		args := append(make([]any, 0, 8+len(h.ids)), command, which, 1, h.key, now, longer, h.operation, h.time, h.most)
		for _, id := range h.ids {
			args = append(args, id)
		}
		commands[i] = goredis.NewCmd(ctx, args...)
	}
	s.where.run(ctx, server, commands)
	for i, h := range calls {
		h.read(commands[i].(*goredis.Cmd).Slice())
	}
}

// read takes the reply of the script.
func (h *leaseCall) read(reply []any, err error) {
	if h.err = err; err != nil {
		return
	}
	ok := len(reply) == 4
	for i, n := range []*int64{&h.now, &h.held, &h.first} {
		if ok {
			*n, ok = reply[i].(int64)
		}
	}
	var ids []any
	if ok {
		ids, ok = reply[3].([]any)
	}
	for _, id := range ids {
		text, isText := id.(string)
		h.listed, ok = append(h.listed, text), ok && isText
	}
	if !ok {
		h.err = fmt.Errorf("the script replied with %d values, want 3 numbers and a list of ids", len(reply))
	}
}
