package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/limit"
)

// Slots are kept in a sorted set for each key, of IDs by the end of their leases,
// under the key with "~held" behind it, which is the shape of no limit. What is
// done is one script on one key, hold.lua, by the clock of the server that has the
// key. A slot is kept for limit.ClockTolerance longer than its lease. A slot with an ID of 26 bytes
// takes about 130 bytes among many under its key, and about 200 alone.

func holdKey(key string) string { return key + "~held" }

// A hold is one run of hold.lua, and what it replied.
type hold struct {
	operation string
	key       string // in Redis
	lease     int64  // in microseconds
	most      int64
	ids       []string

	now, held, first int64
	listed           []string
	err              error
}

const (
	// idsAtOnce is how many slots of a key go into one script at most. It bounds how
	// long a script keeps a server from others.
	idsAtOnce = 256
	// holdsAtOnce is how many scripts of one caller share a round trip at most.
	holdsAtOnce = 256
)

// Acquire implements [limit.LeaseStore].
func (s *Store) Acquire(ctx context.Context, slot limit.Lease, most int64, lease time.Duration) (d limit.Decision, err error) {
	if err := limit.CheckLease(most, lease); err != nil {
		return d, err
	}
	h := hold{operation: "acquire", key: holdKey(slot.Key), lease: micros(lease), most: most, ids: []string{slot.ID}}
	if err := s.hold(ctx, &h); err != nil {
		return d, err
	}
	d = limit.Decision{Allowed: h.held < most, Limit: most, Remaining: max(0, most-h.held-1), At: h.now}
	if h.first > h.now {
		d.ResetAfter = time.Duration(h.first-h.now) * time.Microsecond
	}
	return d, nil
}

// Renew implements [limit.LeaseStore]. Slots of one key are renewed by one script,
// scripts for one server share their round trips, and servers are told at the same
// time. The error is one of those there were: what another server has is renewed.
func (s *Store) Renew(ctx context.Context, slots []limit.Lease, lease time.Duration) error {
	if err := limit.CheckLease(1, lease); err != nil {
		return err
	}
	return s.holdMany(ctx, hold{operation: "renew", lease: micros(lease)}, slots)
}

// Release implements [limit.LeaseStore], in the way of Renew.
func (s *Store) Release(ctx context.Context, slots []limit.Lease) error {
	return s.holdMany(ctx, hold{operation: "release"}, slots)
}

// Held implements [limit.LeaseStore].
func (s *Store) Held(ctx context.Context, key string) (int64, error) {
	h := hold{operation: "held", key: holdKey(key)}
	err := s.hold(ctx, &h)
	return h.held, err
}

// HeldIDs implements [limit.LeaseStore].
func (s *Store) HeldIDs(ctx context.Context, key string, n int) ([]string, error) {
	h := hold{operation: "list", key: holdKey(key), most: int64(n)}
	err := s.hold(ctx, &h)
	return h.listed, err
}

// micros cuts off what would not be exact in a double once the instant is added:
// 142 years.
func micros(lease time.Duration) int64 { return min(lease.Microseconds(), maxSpan) }

// hold runs one script.
func (s *Store) hold(ctx context.Context, h *hold) error {
	server, err := s.where.server(ctx, h.key)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	one := []hold{*h}
	err = s.holdOn(ctx, server, one)
	*h = one[0]
	return err
}

// holdMany does the same for all slots, with as few scripts as they have keys.
func (s *Store) holdMany(ctx context.Context, what hold, slots []limit.Lease) error {
	byKey := make(map[string][]string)
	for _, slot := range slots {
		byKey[slot.Key] = append(byKey[slot.Key], slot.ID)
	}
	var failed error
	byServer := make(map[any][]hold)
	for key, ids := range byKey {
		what.key = holdKey(key)
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
	for server, holds := range byServer {
		wait.Go(func() {
			for part := range slices.Chunk(holds, holdsAtOnce) {
				if err := s.holdOn(ctx, server, part); err != nil {
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

// holdOn runs scripts on one server in one round trip.
func (s *Store) holdOn(ctx context.Context, server any, holds []hold) error {
	lane := s.holds.to(server, s.lanes(), s.holdTrip)
	item := lane.Item()
	item.Value = append(item.Value[:0], holds...)
	if err := lane.Do(ctx, item); err != nil {
		return err
	}
	copy(holds, item.Value)
	clear(item.Value)
	lane.Free(item)
	return nil
}

// holdTrip sends a batch of calls to a server in one round trip, and those whose
// script the server did not know in another. The client may repeat them as it is
// made to: what was done already is done once.
func (s *Store) holdTrip(ctx context.Context, server any, batch []*batch.Item[[]hold]) {
	var all []*hold
	for _, item := range batch {
		for i := range item.Value {
			all = append(all, &item.Value[i])
		}
	}
	s.figures.trips.Add(1)
	s.figures.sent.Add(int64(len(all)))
	start := time.Now()
	s.runHolds(ctx, server, all, "evalsha", holdScriptID)
	var unknown []*hold
	for _, h := range all {
		if h.err != nil && goredis.HasErrorPrefix(h.err, "NOSCRIPT") {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) > 0 {
		s.figures.reloads.Add(int64(len(unknown)))
		s.runHolds(ctx, server, unknown, "eval", holdScript)
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

// runHolds runs scripts, by their name or whole.
func (s *Store) runHolds(ctx context.Context, server any, holds []*hold, command, which string) {
	now := any("")
	if s.now != nil {
		now = s.now()
	}
	commands := make([]goredis.Cmder, len(holds))
	for i, h := range holds {
		args := append(make([]any, 0, 8+len(h.ids)), command, which, 1, h.key, now, longer, h.operation, h.lease, h.most)
		for _, id := range h.ids {
			args = append(args, id)
		}
		commands[i] = goredis.NewCmd(ctx, args...)
	}
	s.where.run(ctx, server, commands)
	for i, h := range holds {
		command := commands[i].(*goredis.Cmd)
		if h.operation == "list" {
			h.listed, h.err = command.StringSlice()
		} else {
			h.read(command.Int64Slice())
		}
	}
}

// read takes the reply of the script.
func (h *hold) read(reply []int64, err error) {
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script replied with %d numbers", len(reply))
	}
	if h.err = err; err == nil {
		h.now, h.held, h.first = reply[0], reply[1], reply[2]
	}
}
