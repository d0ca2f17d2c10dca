package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/pubsub"
)

// Reads that are made at the same time share round trips, as what is published does: see
// a Broker's Publish.

// reading is one call of Members.
type reading struct {
	topic   string
	members map[string]pubsub.Member // of other processes
}

// Members implements [pubsub.Presence]. It takes two round trips to Redis, and fails
// when that does not answer within PresenceOptions.Timeout.
func (p *presence) Members(ctx context.Context, topic string) ([]pubsub.Member, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	members, err := p.others(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("redis: reading the members: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.rooms[topic]; r != nil {
		for id, m := range r.members {
			members[id] = *m
		}
	}
	list := slices.Collect(maps.Values(members))
	return list[:min(len(list), p.opts.MaxMembers)], nil
}

// others reads the members of other processes.
func (p *presence) others(ctx context.Context, topic string) (map[string]pubsub.Member, error) {
	server, err := p.where.server(ctx, p.processes(topic))
	if err != nil {
		return nil, err
	}
	lane := p.reads.to(server)
	item := lane.Item()
	item.Value = reading{topic: topic}
	if err := lane.Do(ctx, item); err != nil {
		return nil, err
	}
	members := item.Value.members
	item.Value = reading{}
	lane.Free(item)
	return members, nil
}

// readTrip reads for a batch: first the processes of each topic, then their members.
func (p *presence) readTrip(ctx context.Context, server any, items []*batch.Item[reading]) {
	sets := make([]goredis.Cmder, len(items))
	for i, it := range items {
		sets[i] = goredis.NewStringSliceCmd(ctx, "smembers", p.processes(it.Value.topic))
	}
	p.where.run(ctx, server, sets)
	type part struct {
		of      *batch.Item[reading]
		process string
	}
	var parts []part
	var hashes []goredis.Cmder
	for i, it := range items {
		processes, err := sets[i].(*goredis.StringSliceCmd).Result()
		it.Err = p.unlessForeign(err)
		it.Value.members = make(map[string]pubsub.Member)
		for _, process := range processes {
			if process != p.self {
				parts = append(parts, part{it, process})
				hashes = append(hashes, goredis.NewKeyValueSliceCmd(ctx, "hrandfield", p.members(it.Value.topic, process), p.opts.MaxMembers, "withvalues"))
			}
		}
	}
	if len(hashes) == 0 {
		return
	}
	p.where.run(ctx, server, hashes)
	gone := make(map[string]struct{})
	for i, part := range parts {
		members, err := hashes[i].(*goredis.KeyValueSliceCmd).Result()
		if err != nil {
			if err = p.unlessForeign(err); err != nil {
				part.of.Err = err
			}
			continue
		}
		topic := part.of.Value.topic
		if len(members) == 0 {
			gone[topic] = struct{}{}
		}
		for _, f := range members {
			m, ok := decodeMember(f.Key, f.Value)
			if !ok {
				p.stats.ignored.Add(1)
				continue
			}
			part.of.Value.members[f.Key] = m
		}
	}
	// It is no harm if this fails.
	sweeps := make([]goredis.Cmder, 0, len(gone))
	for topic := range gone {
		sweeps = append(sweeps, p.sweep(ctx, topic))
	}
	if len(sweeps) > 0 {
		p.where.run(ctx, server, sweeps)
	}
}

// unlessForeign counts a key of another type, which no Presence has written: it is as if
// it were not there.
func (p *presence) unlessForeign(err error) error {
	if err != nil && goredis.HasErrorPrefix(err, "WRONGTYPE ") {
		p.stats.ignored.Add(1)
		return nil
	}
	return err
}
