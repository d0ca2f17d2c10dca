package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/pubsub"
)

// One goroutine writes, what has changed and what is to be renewed, so a topic's
// writes do not overtake each other. Those that arrive while it waits for Redis
// leave together.

// room is a topic with the members of this process. Presence.mu guards it.
type room struct {
	topic   string
	members map[string]*pubsub.Member
	changed map[string]struct{} // ids that are not yet written to Redis
	waiting []chan<- error      // receive when they are
}

// put adds a member. written receives when Redis has it.
func (p *Presence) put(topic string, m *pubsub.Member, written chan<- error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	r := p.rooms[topic]
	if r == nil {
		r = &room{topic: topic, members: make(map[string]*pubsub.Member), changed: make(map[string]struct{})}
		p.rooms[topic] = r
	}
	r.members[m.ID] = m
	r.changed[m.ID] = struct{}{}
	r.waiting = append(r.waiting, written)
	signal(p.wake)
	return true
}

// remove removes a member; not nil, only must it be this very one.
func (p *Presence) remove(topic, id string, only *pubsub.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rooms[topic]
	if r == nil || r.members[id] == nil || only != nil && r.members[id] != only {
		return
	}
	delete(r.members, id)
	r.changed[id] = struct{}{}
	signal(p.wake)
}

// keep writes until Close.
func (p *Presence) keep() {
	defer close(p.done)
	beat := time.NewTicker(p.opts.TTL / 3)
	defer beat.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		var err error
		select {
		case <-p.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), p.opts.Timeout)
			defer cancel()
			_ = p.write(ctx, p.collect(false))
			return
		case <-beat.C:
			err = p.write(p.ctx, p.collect(true))
		case <-p.wake:
			err = p.write(p.ctx, p.collect(false))
		case <-retry.C:
			err = p.write(p.ctx, p.collect(false))
		}
		if err != nil {
			retry.Reset(refusedFor)
		}
	}
}

// task is what is to be written of a room.
type task struct {
	room    *room
	count   int // how many members it has then
	gone    []any
	there   []any // ids, each followed by its value
	changed []string
	waiting []chan<- error
	answer  *goredis.Cmd
}

// collect makes the tasks of all rooms that have changed, or of all.
func (p *Presence) collect(all bool) (tasks []*task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rooms {
		if !all && len(r.changed) == 0 {
			continue
		}
		t := &task{room: r, count: len(r.members), waiting: r.waiting}
		for id := range r.changed {
			t.changed = append(t.changed, id)
			if m := r.members[id]; m != nil {
				t.there = append(t.there, id, encodeMember(m))
			} else {
				t.gone = append(t.gone, id)
			}
		}
		clear(r.changed)
		r.waiting = nil
		tasks = append(tasks, t)
	}
	return tasks
}

// tasksAtOnce is how many tasks leave together. Most have one member or none.
const tasksAtOnce = 128

// write returns the first error. After one that is not Redis's answer it writes no
// more.
func (p *Presence) write(ctx context.Context, tasks []*task) (first error) {
	if len(tasks) == 0 {
		return nil
	}
	var broken error
	for len(tasks) > 0 {
		n := min(len(tasks), tasksAtOnce)
		if broken == nil {
			broken = p.send(ctx, tasks[:n])
		}
		if err := p.settle(tasks[:n], broken); first == nil {
			first = err
		}
		tasks = tasks[n:]
	}
	p.report(first)
	return first
}

// writeMembers writes a task: it removes and adds members of a process's hash and renews
// it. If that comes out with another number of members, something is known to be
// wrong: the hash is dropped and 0 returned, for it to be written anew.
//
// KEYS: the topic's processes, the process's members. ARGV: the process, the time
// to live in ms, the number of members (-1: more are to come), the number of members
// to remove, these, and those to add, each with its value. Keys of another type are
// dropped: no Presence has written them.
const writeMembers = `
local function foreign(reply) return type(reply) == 'table' and reply.err:find('WRONGTYPE', 1, true) end
if ARGV[3] == '0' then
	redis.pcall('SREM', KEYS[1], ARGV[1])
	redis.call('DEL', KEYS[2])
	return 1
end
if foreign(redis.pcall('HLEN', KEYS[2])) then redis.call('DEL', KEYS[2]) end
local add = 5 + ARGV[4]
for i = 5, add - 1 do redis.call('HDEL', KEYS[2], ARGV[i]) end
for i = add, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
if ARGV[3] ~= '-1' and redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[3]) then
	redis.call('DEL', KEYS[2])
	return 0
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
local added = redis.pcall('SADD', KEYS[1], ARGV[1])
if foreign(added) then
	redis.call('DEL', KEYS[1])
	redis.call('SADD', KEYS[1], ARGV[1])
elseif type(added) == 'table' then
	return added
end
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
return 1`

// changesAtOnce is how many members one command writes.
const changesAtOnce = 500

// send fails if it is not known what Redis has made of the tasks.
func (p *Presence) send(ctx context.Context, tasks []*task) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	pipe := p.client.Pipeline()
	for _, t := range tasks {
		gone, there := t.gone, t.there
		for t.count > 0 && len(gone)+len(there)/2 > changesAtOnce {
			g := min(len(gone), changesAtOnce)
			a := min(len(there), 2*(changesAtOnce-g))
			p.eval(ctx, pipe, t.room.topic, -1, gone[:g], there[:a])
			gone, there = gone[g:], there[a:]
		}
		t.answer = p.eval(ctx, pipe, t.room.topic, t.count, gone, there)
	}
	_, err := pipe.Exec(ctx)
	if _, ok := errors.AsType[goredis.Error](err); ok {
		return nil // each task has its own
	}
	return err
}

func (p *Presence) eval(ctx context.Context, pipe goredis.Pipeliner, topic string, count int, gone, there []any) *goredis.Cmd {
	args := make([]any, 0, 4+len(gone)+len(there))
	args = append(args, p.self, p.opts.TTL.Milliseconds(), count, len(gone))
	args = append(append(args, gone...), there...)
	return pipe.Eval(ctx, writeMembers, []string{p.processes(topic), p.members(topic, p.self)}, args...)
}

// settle takes note of what has become of tasks, and answers the calls that wait. broken is
// what has kept them all from Redis. It returns the first task's error.
func (p *Presence) settle(tasks []*task, broken error) (first error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		err := broken
		if err == nil {
			err = t.answer.Err()
		}
		if first == nil {
			first = err
		}
		r := t.room
		switch {
		case err != nil:
			for _, id := range t.changed {
				r.changed[id] = struct{}{}
			}
		case t.answer.Val() == int64(0):
			p.stats.repaired.Add(1)
			for id := range r.members {
				r.changed[id] = struct{}{}
			}
			r.waiting = append(t.waiting, r.waiting...)
			signal(p.wake)
			continue
		}
		for _, w := range t.waiting {
			w <- err
		}
		if len(r.members) == 0 && len(r.changed) == 0 {
			delete(p.rooms, r.topic)
		}
	}
	return first
}

// report counts failures, and reports the first of several and their end.
func (p *Presence) report(err error) {
	if err != nil {
		p.stats.failed.Add(1)
	}
	switch {
	case p.ctx.Err() != nil:
	case err != nil:
		p.outage.Failed(err)
	default:
		p.outage.Works()
	}
}
