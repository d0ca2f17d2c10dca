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
	rewrite bool                // all members are to be written, in place of what Redis has
	writes  uint64              // how often this process has written it
	written uint64              // the number of the last write that Redis has acknowledged
	emptied time.Time           // when the last member left
}

// maxChanged is how many more changes than members may wait, for a Redis that does not
// answer, before all members are to be written instead.
const maxChanged = 1000

// put adds a member. written receives when Redis has it.
func (p *presence) put(topic string, m *pubsub.Member, written chan<- error) bool {
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
func (p *presence) remove(topic, id string, only *pubsub.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rooms[topic]
	if r == nil || r.members[id] == nil || only != nil && r.members[id] != only {
		return
	}
	delete(r.members, id)
	if len(r.members) == 0 {
		r.emptied = time.Now()
	}
	if r.changed[id] = struct{}{}; len(r.changed) > len(r.members)+maxChanged {
		r.rewrite = true
		clear(r.changed)
	}
	signal(p.wake)
}

// keep writes until Close.
func (p *presence) keep() {
	defer close(p.done)
	beat := time.NewTicker(p.ttl() / 3)
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
			p.look(p.ctx)
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
	rewrite bool
	waiting []chan<- error
	answer  *goredis.Cmd
}

// collect makes the tasks of all rooms that have changed, or of all.
func (p *presence) collect(all bool) (tasks []*task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rooms {
		if !all && len(r.changed) == 0 && !r.rewrite {
			continue
		}
		r.writes++
		t := &task{room: r, count: len(r.members), waiting: r.waiting, rewrite: r.rewrite}
		if r.rewrite {
			r.rewrite = false
			clear(r.changed)
			for id, m := range r.members {
				t.there = append(t.there, id, encodeMember(m))
			}
		}
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
func (p *presence) write(ctx context.Context, tasks []*task) (first error) {
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

// announce is the part of scripts that numbers a change and publishes it. The epoch ends with
// the topic's last process. A channel that cannot be published to stops nothing: watchers find
// out that they have missed a change.
const announce = `
local function foreign(reply) return type(reply) == 'table' and reply.err and reply.err:find('WRONGTYPE', 1, true) end
local function announce(processes, version, channel, publish, body)
	if foreign(redis.pcall('HGET', version, 'epoch')) then redis.call('DEL', version) end
	local epoch = redis.call('HGET', version, 'epoch')
	if not epoch then
		local time = redis.call('TIME')
		epoch = time[1] .. '.' .. time[2]
		redis.call('HSET', version, 'epoch', epoch)
	end
	local number = redis.call('HINCRBY', version, 'number', 1)
	if redis.pcall('EXISTS', processes) == 0 then
		redis.call('DEL', version)
		number = number .. '!'
	end
	redis.pcall(publish, channel, '\1\0\0\0' .. epoch .. ' ' .. number .. '\n' .. body)
end`

// writeMembers writes a task: it removes and adds members of a process's hash and renews
// it. If that comes out with another number of members, or Redis does not have the last write that it has
// acknowledged, as after a failover, something is known to be wrong: the hash is dropped and 0 returned, for it to be
// written anew.
//
// KEYS: the topic's processes, the process's members, the topic's version, its channel.
// ARGV: the process, the time to live in ms, the number of members (-1: more are to come),
// the number of members to remove, the command that publishes or none, the change to publish,
// 1 to drop what is there, the number of the last write and of this one, the members to remove, and those to add, each
// with its value. The version has the number of the last write of each process.
// Keys of another type are dropped: no Presence has written them.
const writeMembers = announce + `
local function done()
	if ARGV[5] ~= '' then announce(KEYS[1], KEYS[3], KEYS[4], ARGV[5], ARGV[6]) end
	redis.call('PEXPIRE', KEYS[3], 2 * ARGV[2])
	return 1
end
if ARGV[3] == '0' then
	redis.pcall('SREM', KEYS[1], ARGV[1])
	redis.call('DEL', KEYS[2])
	redis.pcall('HDEL', KEYS[3], ARGV[1])
	return done()
end
if foreign(redis.pcall('HLEN', KEYS[3])) then redis.call('DEL', KEYS[3]) end
if ARGV[7] == '1' or foreign(redis.pcall('HLEN', KEYS[2])) then
	redis.call('DEL', KEYS[2])
elseif tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 0) < tonumber(ARGV[8]) then
	redis.call('DEL', KEYS[2])
	return 0
end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[9])
local add = 10 + ARGV[4]
for i = 10, add - 1 do redis.call('HDEL', KEYS[2], ARGV[i]) end
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
return done()`

// changesAtOnce is how many members one command writes.
const changesAtOnce = 500

// send fails if it is not known what Redis has made of the tasks.
func (p *presence) send(ctx context.Context, tasks []*task) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	pipe := p.client.Pipeline()
	for _, t := range tasks {
		rest := portion{room: t.room, count: -1, rewrite: t.rewrite, drop: t.rewrite, gone: t.gone, there: t.there}
		for t.count > 0 && len(rest.gone)+len(rest.there)/2 > changesAtOnce {
			first, g := rest, min(len(rest.gone), changesAtOnce)
			a := min(len(rest.there), 2*(changesAtOnce-g))
			first.gone, first.there = rest.gone[:g], rest.there[:a]
			p.eval(ctx, pipe, first)
			rest.gone, rest.there, rest.drop = rest.gone[g:], rest.there[a:], false
		}
		rest.count = t.count
		t.answer = p.eval(ctx, pipe, rest)
	}
	_, err := pipe.Exec(ctx)
	if _, ok := errors.AsType[goredis.Error](err); ok {
		return nil // each task has its own
	}
	return err
}

// portion is a task, or as much of it as one command writes.
type portion struct {
	room        *room
	count       int  // how many members there are then; -1: more follow
	rewrite     bool // it is of a task that writes all members
	drop        bool // what there was
	gone, there []any
}

func (p *presence) eval(ctx context.Context, pipe goredis.Pipeliner, t portion) *goredis.Cmd {
	var publish, change, drop any = p.publishing, encodeChange(t.gone, t.there), 0
	switch {
	case t.rewrite && t.count >= 0:
		change = "" // watchers read the list
	case t.rewrite, len(t.gone)+len(t.there) == 0:
		publish, change = "", ""
	}
	if t.drop {
		drop = 1
	}
	args := make([]any, 0, 9+len(t.gone)+len(t.there))
	args = append(
		args, p.self, p.ttl().Milliseconds(), t.count, len(t.gone), publish, change, drop, t.room.written, t.room.writes,
	)
	args = append(append(args, t.gone...), t.there...)
	topic := t.room.topic
	keys := []string{p.processes(topic), p.members(topic, p.self), p.version(topic), p.channel(topic)}
	return pipe.Eval(ctx, writeMembers, keys, args...)
}

// settle records what has become of tasks, and answers the calls that wait. broken is
// what has kept them all from Redis. It returns the first task's error.
func (p *presence) settle(tasks []*task, broken error) (first error) {
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
			r.rewrite = r.rewrite || t.rewrite
			for _, id := range t.changed {
				r.changed[id] = struct{}{}
			}
			if len(r.members) == 0 && time.Since(r.emptied) > p.ttl() { // Redis has forgotten them
				r.rewrite = false
				clear(r.changed)
			}
		case t.answer.Val() == int64(0):
			p.stats.repaired.Add(1)
			r.rewrite = true
			r.waiting = append(t.waiting, r.waiting...)
			signal(p.wake)
			continue
		default:
			r.written = r.writes // no other write has begun
		}
		for _, w := range t.waiting {
			w <- err
		}
		if len(r.members) == 0 && len(r.changed) == 0 && !r.rewrite {
			delete(p.rooms, r.topic)
		}
	}
	return first
}

// report counts failures, and reports the first of several and their end.
func (p *presence) report(err error) {
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
