package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/pubsub"
)

// watch is one watcher of a topic. Changes that come while the list is being read wait for
// it; so the state that has been reported is always that of a version.
type watch struct {
	p      *presence
	topic  string
	report func(pubsub.PresenceReport)
	sub    pubsub.Subscription
	closed atomic.Bool

	mu       sync.Mutex
	at       version // that has been reported
	listing  bool    // the list is being read
	stale    bool    // it has to be read once more
	waiting  []change
	size     int         // bytes of waiting
	complete *time.Timer // reads the list to find out which members have left
}

// maxWaiting bounds the changes that wait while the list is read, in bytes. Beyond it the
// list is read once more.
const maxWaiting = 4 << 20

// settleTime is how long a change may be on its way before it counts as missed.
const settleTime = 250 * time.Millisecond

// Watch implements [pubsub.PresenceWatcher]. It fails when Redis does not answer within
// PresenceOptions.Timeout, and with a client of type *redis.Ring. The first watch opens
// connections of its own, as a [Broker] does. See [Presence] for when members are reported
// as left.
func (p *presence) Watch(ctx context.Context, topic string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	events, err := p.changes()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	w := &watch{p: p, topic: topic, report: report, listing: true}
	if w.sub, err = events.Subscribe(ctx, topic, w.deliver); err != nil {
		return nil, err
	}
	l, err := p.list(ctx, topic)
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("redis: reading the members: %w", err)
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.watches[w] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		_ = w.Close()
		return nil, pubsub.ErrClosed
	}
	w.listed(l, true)
	return w, nil
}

// changes is the Broker that carries changes.
func (p *presence) changes() (*broker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, pubsub.ErrClosed
	case p.events != nil:
		return p.events, nil
	}
	if _, ok := p.client.(*goredis.Ring); ok {
		return nil, fmt.Errorf("redis: watching on a Ring would miss changes while its servers come and go; use a client of one server, of Sentinel or of a cluster: %w", errors.ErrUnsupported)
	}
	p.events = newBroker(p.client, BrokerOptions{
		Prefix: p.opts.Prefix, Timeout: p.opts.Timeout, Logger: p.opts.Logger, OnOutage: p.opts.OnOutage,
	})
	p.events.kind = presenceKind
	return p.events, nil
}

// Close implements [pubsub.Subscription].
func (w *watch) Close() error {
	w.closed.Store(true)
	w.p.mu.Lock()
	delete(w.p.watches, w)
	w.p.mu.Unlock()
	return w.sub.Close()
}

// deliver is called for each change that is published, and when changes may have been missed.
func (w *watch) deliver(m pubsub.Message) {
	c, ok := decodeChange(string(m.Frame))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.Lost:
		w.read()
	case !ok:
		w.p.stats.ignored.Add(1)
	case !w.listing:
		w.apply(c)
	case w.size+len(c.changed) > maxWaiting:
		w.stale, w.waiting, w.size = true, nil, 0
	default:
		w.waiting = append(w.waiting, c)
		w.size += messageOverhead + len(c.changed)
	}
}

// apply reports a change, if it is the next. w.mu is held.
func (w *watch) apply(c change) {
	begins := w.at.epoch == "" && c.number == 1 // the topic had no members
	switch {
	case w.closed.Load(), c.epoch == w.at.epoch && c.number <= w.at.number:
		return
	case c.changed == "", !begins && (c.epoch != w.at.epoch || c.number != w.at.number+1):
		w.read()
		return
	}
	r, ignored, ok := c.report()
	if !ok {
		ignored++
	}
	w.p.stats.ignored.Add(ignored)
	if w.at = c.version; c.last {
		w.at = version{}
	}
	w.report(r)
}

// read has the list read now, for members that have joined, and half of ttl later, for those
// that have left. w.mu is held.
func (w *watch) read() {
	if w.closed.Load() {
		return
	}
	if w.complete == nil {
		w.complete = time.AfterFunc(w.p.ttl()/2, w.readComplete)
	} else {
		w.complete.Reset(w.p.ttl() / 2)
	}
	if w.listing {
		w.stale = true
		return
	}
	w.listing = true
	go w.relist(false)
}

func (w *watch) readComplete() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed.Load():
	case w.listing:
		w.complete.Reset(settleTime)
	default:
		w.listing = true
		go w.relist(true)
	}
}

// relist reads the list until it has been read.
func (w *watch) relist(complete bool) {
	for !w.closed.Load() {
		ctx, cancel := context.WithTimeout(w.p.ctx, w.p.opts.Timeout)
		l, err := w.p.list(ctx, w.topic)
		cancel()
		if err == nil {
			w.listed(l, complete)
			return
		}
		select {
		case <-time.After(refusedFor):
		case <-w.p.ctx.Done():
			return
		}
	}
}

// listed reports a list, and then the changes that came while it was read.
func (w *watch) listed(l list, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return
	}
	w.report(pubsub.PresenceReport{Complete: complete && !l.cut, Present: l.members})
	w.at, w.listing = l.version, false
	waiting := w.waiting
	w.waiting, w.size = nil, 0
	for i, c := range waiting {
		if w.listing { // a gap
			w.waiting = append(w.waiting, waiting[i:]...)
			break
		}
		w.apply(c)
	}
	if w.stale {
		w.stale = false
		w.read()
	}
}

// look is called three times in ttl: it removes processes that are gone from watched topics,
// and finds changes that were missed.
func (p *presence) look(ctx context.Context) {
	p.mu.Lock()
	byTopic := make(map[string][]*watch, len(p.watches))
	for w := range p.watches {
		byTopic[w.topic] = append(byTopic[w.topic], w)
	}
	p.mu.Unlock()
	topics := make([]string, 0, len(byTopic))
	for topic := range byTopic {
		topics = append(topics, topic)
	}
	for part := range slices.Chunk(topics, tasksAtOnce) {
		within, cancel := context.WithTimeout(ctx, p.opts.Timeout)
		pipe := p.client.Pipeline()
		sweeps := make([]*goredis.Cmd, len(part))
		for i, topic := range part {
			sweeps[i] = p.sweep(within, topic)
			_ = pipe.Process(within, sweeps[i])
		}
		_, err := pipe.Exec(within)
		cancel()
		if _, ok := errors.AsType[goredis.Error](err); err != nil && !ok {
			return
		}
		for i, topic := range part {
			reply, err := sweeps[i].StringSlice()
			if err != nil || len(reply) != 2 {
				continue
			}
			for _, w := range byTopic[topic] {
				w.looked(versionOf(reply))
			}
		}
	}
}

// looked finds out whether a change was missed, when it cannot be on its way any more.
func (w *watch) looked(now version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == now || w.listing {
		return
	}
	time.AfterFunc(settleTime, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.listing && (w.at.epoch != now.epoch || w.at.number < now.number) {
			w.read()
		}
	})
}

// sweepProcesses takes processes without members from a topic's and announces it, once.
// KEYS: the topic's processes, its version, its channel. ARGV: what the keys of members begin
// with, the command that publishes, how many ms the version is kept.
const sweepProcesses = announce + `
local processes = redis.pcall('SMEMBERS', KEYS[1])
if foreign(processes) then processes = {} end
for _, process in ipairs(processes) do
	if redis.call('EXISTS', ARGV[1] .. process) == 0 and redis.call('SREM', KEYS[1], process) == 1 then
		redis.pcall('HDEL', KEYS[2], process)
		announce(KEYS[1], KEYS[2], KEYS[3], ARGV[2], '')
		redis.call('PEXPIRE', KEYS[2], ARGV[3])
	end
end
if foreign(redis.pcall('HGET', KEYS[2], 'epoch')) then return {'', '0'} end
return {redis.call('HGET', KEYS[2], 'epoch') or '', redis.call('HGET', KEYS[2], 'number') or '0'}`

func (p *presence) sweep(ctx context.Context, topic string) *goredis.Cmd {
	return goredis.NewCmd(ctx, "eval", sweepProcesses, 3, p.processes(topic), p.version(topic), p.channel(topic),
		p.members(topic, ""), p.publishing, 2*p.ttl().Milliseconds())
}

// listMembers reads a topic's version and members. KEYS: the topic's processes, its version.
// ARGV: what the keys of members begin with, how many to read of each process. The reply is
// the epoch, the number, 1 if there are more members, and for each process its members.
const listMembers = `
local function foreign(reply) return type(reply) == 'table' and reply.err end
local processes, version = redis.pcall('SMEMBERS', KEYS[1]), redis.pcall('HMGET', KEYS[2], 'epoch', 'number')
if foreign(processes) then processes = {} end
if foreign(version) then version = {} end
local reply = {version[1] or '', version[2] or '0', '0'}
for _, process in ipairs(processes) do
	local members = redis.pcall('HRANDFIELD', ARGV[1] .. process, ARGV[2], 'WITHVALUES')
	if not foreign(members) then
		reply[#reply + 1] = members
		if #members / 2 >= tonumber(ARGV[2]) then reply[3] = '1' end
	end
end
return reply`

// list is a topic as it is at a version.
type list struct {
	version
	members []pubsub.Member
	cut     bool // there may be more
}

func (p *presence) list(ctx context.Context, topic string) (l list, err error) {
	reply, err := p.client.Eval(ctx, listMembers, []string{p.processes(topic), p.version(topic)}, p.members(topic, ""), p.opts.MaxMembers).Slice()
	if err != nil {
		return l, err
	}
	head := make([]string, 0, 3)
	for len(reply) > 0 && len(head) < 3 {
		text, _ := reply[0].(string)
		head, reply = append(head, text), reply[1:]
	}
	if len(head) < 3 {
		return l, errors.New("the script replied too little")
	}
	l.version, l.cut = versionOf(head), head[2] == "1"
	for _, of := range reply {
		texts, _ := of.([]any)
		for i := 0; i+1 < len(texts); i += 2 {
			id, _ := texts[i].(string)
			value, _ := texts[i+1].(string)
			if m, ok := decodeMember(id, value); ok {
				l.members = append(l.members, m)
			} else {
				p.stats.ignored.Add(1)
			}
		}
	}
	return l, nil
}

func versionOf(reply []string) (v version) {
	c, _ := decodeChange(reply[0] + " " + reply[1] + "\n")
	return c.version
}
