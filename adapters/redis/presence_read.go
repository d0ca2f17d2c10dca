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
// [Broker.Publish].

// reading is one call of Members.
type reading struct {
	topic   string
	members map[string]pubsub.Member // of other processes
}

// Members implements [pubsub.Presence]. It takes two round trips to Redis, and fails
// when that does not answer within PresenceOptions.Timeout.
func (p *Presence) Members(ctx context.Context, topic string) ([]pubsub.Member, error) {
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
	return slices.Collect(maps.Values(members)), nil
}

// others reads the members of other processes.
func (p *Presence) others(ctx context.Context, topic string) (map[string]pubsub.Member, error) {
	server, err := p.where.server(ctx, p.processes(topic))
	if err != nil {
		return nil, err
	}
	lane := p.reads.to(server, batch.Options{OnCaller: p.where.keepsDeadlines()}, p.readTrip)
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
func (p *Presence) readTrip(ctx context.Context, server any, items []*batch.Item[reading]) {
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
				hashes = append(hashes, goredis.NewMapStringStringCmd(ctx, "hgetall", p.members(it.Value.topic, process)))
			}
		}
	}
	if len(hashes) == 0 {
		return
	}
	p.where.run(ctx, server, hashes)
	gone := make(map[string][]string)
	for i, part := range parts {
		members, err := hashes[i].(*goredis.MapStringStringCmd).Result()
		if err != nil {
			if err = p.unlessForeign(err); err != nil {
				part.of.Err = err
			}
			continue
		}
		topic := part.of.Value.topic
		if len(members) == 0 && !slices.Contains(gone[topic], part.process) {
			gone[topic] = append(gone[topic], part.process)
		}
		for id, value := range members {
			m, ok := decodeMember(id, value)
			if !ok {
				p.stats.ignored.Add(1)
				continue
			}
			part.of.Value.members[id] = m
		}
	}
	p.forget(ctx, server, gone)
}

// unlessForeign counts a key of another type, which no Presence has written: it is as if
// it were not there.
func (p *Presence) unlessForeign(err error) error {
	if err != nil && goredis.HasErrorPrefix(err, "WRONGTYPE ") {
		p.stats.ignored.Add(1)
		return nil
	}
	return err
}

// forgetProcess takes a process without members from a topic's, unless it has come
// back meanwhile. KEYS: the topic's processes, the process's members. ARGV: the process.
const forgetProcess = `
if redis.call('EXISTS', KEYS[2]) == 0 then redis.pcall('SREM', KEYS[1], ARGV[1]) end
return 1`

// forget takes processes without members from their topics. It is no harm if it fails.
func (p *Presence) forget(ctx context.Context, server any, gone map[string][]string) {
	var commands []goredis.Cmder
	for topic, processes := range gone {
		for _, process := range processes {
			commands = append(commands, goredis.NewCmd(ctx, "eval", forgetProcess, 2, p.processes(topic), p.members(topic, process), process))
		}
	}
	if len(commands) > 0 {
		p.where.run(ctx, server, commands)
	}
}
