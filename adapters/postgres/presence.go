package postgres

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// presence is a [pubsub.PresenceWatcher]: a row for each member, and one for each process with members, which says for
// how long they count. A change of a topic's members gets the next version of the topic, in the order of the commits,
// and a notification; processes that watch the topic read what is newer than what they have.
type presence struct {
	*database
	watching
	process int64 // random
	fails   outage.Reporter

	mu      sync.Mutex
	joined  map[place]joined
	joining map[place]int // calls of Join under way
	last    int64         // stamp
	leaving *work[leaving]
}

// place is that of a member in a topic.
type place struct{ topic, id string }

// joined is a member of this process. The stamp is that of the call by which it joined.
type joined struct {
	member pubsub.Member
	stamp  int64
}

// leaving is a member to be removed, unless it joined by a later call than that with the stamp.
type leaving struct {
	place
	stamp int64
}

// newPresence makes a presence of a database that does not listen yet.
func newPresence(d *database) *presence {
	p := &presence{
		database: d, process: rand.Int64(), joined: make(map[place]joined), joining: make(map[place]int),
		leaving: newWork[leaving](),
		fails: outage.Reporter{
			Component: "presence", Name: d.o.Schema, Log: d.o.Logger, Hook: d.o.OnOutage, Settle: time.Second,
			Failing: "postgres: members cannot be written; trying again", Working: "postgres: members are written again",
		},
	}
	p.watching.init(d)
	return p
}

func (p *presence) start() {
	p.done.Go(func() { workOff(p.database, p.leaving, membersAtOnce, p.remove, p.report) })
	p.done.Go(p.keepUp)
}

// Shared says that other processes list the members, too.
func (p *presence) Shared() bool { return true }

// Join implements [pubsub.Presence].
func (p *presence) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	at := place{topic, m.ID}
	p.mu.Lock()
	p.last++
	j := joined{m, p.last}
	p.joining[at]++
	p.mu.Unlock()
	err := p.call(ctx, "joining a topic", func(ctx context.Context) error {
		counts, err := p.joinOne(ctx, at, j)
		if err == nil && !counts {
			if err = p.beat(ctx); err == nil {
				counts, err = p.joinOne(ctx, at, j)
			}
		}
		if err == nil && !counts {
			err = fmt.Errorf("the process does not count: the clock of the server is stepping")
		}
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.joining[at]--; p.joining[at] == 0 {
		delete(p.joining, at)
	}
	if err != nil { // it may have joined
		p.leaving.add(leaving{at, j.stamp})
		return err
	}
	if p.joined[at].stamp < j.stamp {
		p.joined[at] = j
	}
	return nil
}

func (p *presence) joinArgs(at place, j joined) []any {
	return []any{p.process, []byte(at.topic), []byte(at.id), []byte(j.member.User), notNil(j.member.Data), j.stamp}
}

// joinOne writes a member, and returns whether the process counts; else nothing was written.
func (p *presence) joinOne(ctx context.Context, at place, j joined) (counts bool, err error) {
	err = p.pool.QueryRow(ctx, p.sql.join, p.joinArgs(at, j)...).Scan(&counts)
	return counts, err
}

// Leave implements [pubsub.Presence].
func (p *presence) Leave(topic, id string) {
	at := place{topic, id}
	p.mu.Lock()
	defer p.mu.Unlock()
	if j, ok := p.joined[at]; ok {
		delete(p.joined, at)
		p.leaving.add(leaving{at, j.stamp})
	}
}

// Members implements [pubsub.Presence].
func (p *presence) Members(ctx context.Context, topic string) (all []pubsub.Member, err error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	own := make(map[string]bool) // members of this process
	err = p.call(ctx, "listing members", func(ctx context.Context) error {
		rows, err := p.pool.Query(ctx, p.sql.members, []byte(topic), p.o.MaxMembers)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m pubsub.Member, err error) {
			var id, user []byte
			var process int64
			err = row.Scan(&id, &user, &m.Data, &process)
			m.ID, m.User = string(id), string(user)
			if process == p.process {
				own[m.ID] = true
			}
			return m, err
		})
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(all, func(m pubsub.Member) bool { // what has left is removed soon
		_, joined := p.joined[place{topic, m.ID}]
		return own[m.ID] && !joined
	}), err
}

// membersAtOnce is how many members are written by one call.
const membersAtOnce = 1000

// remove removes members that have not joined anew since.
func (p *presence) remove(ctx context.Context, all []leaving) error {
	topics, ids, stamps := make([][]byte, len(all)), make([][]byte, len(all)), make([]int64, len(all))
	for i, l := range all {
		topics[i], ids[i], stamps[i] = []byte(l.topic), []byte(l.id), l.stamp
	}
	_, err := p.pool.Exec(ctx, p.sql.leave, p.process, topics, ids, stamps)
	return err
}

// report reports that members cannot be written, or can again.
func (p *presence) report(err error) {
	if err == nil {
		p.fails.Works()
	} else if p.ctx.Err() == nil {
		p.fails.Failed(err)
	}
}

// keepUp has the process count, and members of others that do not count removed, until the end.
func (p *presence) keepUp() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(p.o.ProcessTimeout / 6):
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.o.Timeout)
		p.mu.Lock()
		members := len(p.joined)
		p.mu.Unlock()
		var err error
		if members > 0 {
			err = p.beat(ctx)
		}
		if err == nil {
			_, err = p.pool.Exec(ctx, p.sql.sweepMembers)
		}
		cancel()
		p.report(err)
	}
}

// beat has the process count for half a ProcessTimeout from now on, so that what follows takes no longer than the other
// half. It writes anew what is not as it should be, such as after a crash of the server.
func (p *presence) beat(ctx context.Context) error {
	var members *int
	if err := p.pool.QueryRow(ctx, p.sql.beat, p.process, micros(p.o.ProcessTimeout/2)).Scan(&members); err != nil {
		return err
	}
	p.mu.Lock()
	here := maps.Clone(p.joined)
	p.mu.Unlock()
	if members != nil && *members == len(here) {
		return nil
	}
	rows, err := p.pool.Query(ctx, p.sql.own, p.process)
	if err != nil {
		return err
	}
	var topic, id []byte
	var stamp int64
	_, err = pgx.ForEachRow(rows, []any{&topic, &id, &stamp}, func() error {
		at := place{string(topic), string(id)}
		if here[at].stamp == stamp {
			delete(here, at) // it is there
		} else if _, ok := here[at]; !ok {
			p.mu.Lock()
			if p.joined[at].stamp != stamp && p.joining[at] == 0 {
				p.leaving.add(leaving{at, stamp})
			}
			p.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(here)), membersAtOnce) {
		var batch pgx.Batch
		for _, at := range part {
			batch.Queue(p.sql.join, p.joinArgs(at, here[at])...)
		}
		if err := p.pool.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
	}
	return nil
}

// close has all members leave: the process does not count any more. It is called before the database is closed.
func (p *presence) close() {
	ctx, cancel := context.WithTimeout(p.ctx, min(p.o.Timeout, p.o.ProcessTimeout))
	defer cancel()
	p.mu.Lock()
	clear(p.joined)
	p.mu.Unlock()
	_, err := p.pool.Exec(ctx, p.sql.end, p.process)
	if err == nil {
		_, err = p.pool.Exec(ctx, p.sql.sweepMembers)
	}
	if err != nil { // other processes find it out
		p.fails.Failed(err)
	}
}

var (
	_ pubsub.PresenceWatcher = (*presence)(nil)
	_ pubsub.SharedPresence  = (*presence)(nil)
)
