package postgres

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/pubsub"
)

// watching has the topics whose members are watched in this process. One goroutine reads the changes and makes all
// reports.
type watching struct {
	d      *database
	dirty  *work[*watched] // whose members may have changed
	mu     sync.Mutex
	topics map[string]*watched // by the md5 of the name, which notifications have
}

// watched is a topic whose members are watched. watching.mu guards it.
type watched struct {
	topic          string
	epoch, version int64    // of the last change that was reported
	watchers       []*watch // replaced, never changed
}

// watch is a subscription of the members of a topic.
type watch struct {
	of     *watching
	report func(pubsub.PresenceReport)
	begun  chan struct{} // closed when the first report was made
	fresh  bool          // it was not; guarded by watching.mu
	closed atomic.Bool
	in     *watched
}

func (w *watching) init(d *database) {
	w.d, w.topics, w.dirty = d, make(map[string]*watched), newWork[*watched]()
	d.kinds['w'] = w.takeChange
	d.lost = append(d.lost, w.lookAll)
	d.done.Go(func() { workOff(d, w.dirty, topicsAtOnce, w.readSome, unreported) })
}

// Watch implements [pubsub.PresenceWatcher].
func (w *watching) Watch(
	ctx context.Context, topic string, report func(pubsub.PresenceReport),
) (pubsub.Subscription, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	one := &watch{of: w, report: report, begun: make(chan struct{}), fresh: true}
	err := w.d.call(ctx, "watching members", func(ctx context.Context) error {
		if err := w.d.awaitUp(ctx); err != nil {
			return err
		}
		w.mu.Lock()
		t := w.topics[digest(topic)]
		if t == nil {
			t = &watched{topic: topic}
			w.topics[digest(topic)] = t
		}
		one.in = t
		t.watchers = append(t.watchers[:len(t.watchers):len(t.watchers)], one)
		w.dirty.add(t)
		w.mu.Unlock()
		select {
		case <-one.begun:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		_ = one.Close()
		return nil, err
	}
	return one, nil
}

// Close implements [pubsub.Subscription].
func (o *watch) Close() error {
	o.closed.Store(true)
	w, t := o.of, o.in
	if t == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.watchers = slices.DeleteFunc(slices.Clone(t.watchers), func(other *watch) bool { return other == o })
	if key := digest(t.topic); len(t.watchers) == 0 && w.topics[key] == t {
		delete(w.topics, key)
	}
	return nil
}

// takeChange notes that the members of a topic have changed.
func (w *watching) takeChange(text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.topics[text]; t != nil {
		w.dirty.add(t)
	}
	return nil
}

// lookAll notes that changes may have been missed.
func (w *watching) lookAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.topics {
		w.dirty.add(t)
	}
}

// topicsAtOnce is how many topics are read by one statement.
const topicsAtOnce = 100

// changes are what was read of a topic.
type changes struct {
	epoch, version int64
	since          bool // since the version that was known; otherwise all members are read
	report         pubsub.PresenceReport
}

// readSome reads the changes of topics, and reports them. Watches that have no report yet get one of all members, with
// the others of their topic.
func (w *watching) readSome(ctx context.Context, topics []*watched) error {
	names, epochs, versions := make([][]byte, len(topics)), make([]int64, len(topics)), make([]int64, len(topics))
	w.mu.Lock()
	for i, t := range topics {
		names[i] = []byte(t.topic)
		if !slices.ContainsFunc(t.watchers, func(o *watch) bool { return o.fresh }) {
			epochs[i], versions[i] = t.epoch, t.version
		}
	}
	w.mu.Unlock()
	rows, err := w.d.pool.Query(ctx, w.d.sql.changes, names, epochs, versions, w.d.o.MaxMembers)
	if err != nil {
		return err
	}
	all := make([]changes, len(topics))
	var i int
	var epoch, version int64
	var since bool
	var id, user, data []byte
	var gone *bool // nil: there are no members
	_, err = pgx.ForEachRow(rows, []any{&i, &epoch, &version, &since, &id, &user, &data, &gone}, func() error {
		c := &all[i-1]
		c.epoch, c.version, c.since = epoch, version, since
		switch {
		case gone == nil:
		case *gone:
			c.report.Left = append(c.report.Left, string(id))
		default:
			c.report.Present = append(c.report.Present, pubsub.Member{ID: string(id), User: string(user), Data: data})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, t := range topics {
		w.reportTo(t, all[i])
	}
	return nil
}

// reportTo reports changes to the watches of a topic.
func (w *watching) reportTo(t *watched, c changes) {
	w.mu.Lock()
	t.epoch, t.version = c.epoch, c.version
	watchers := t.watchers
	w.mu.Unlock()
	if c.since && len(c.report.Present)+len(c.report.Left) == 0 {
		return
	}
	c.report.Complete = !c.since && len(c.report.Present) < w.d.o.MaxMembers
	for _, o := range watchers {
		w.mu.Lock()
		fresh := o.fresh
		if o.fresh && !c.since {
			o.fresh = false
		}
		w.mu.Unlock()
		if o.closed.Load() || fresh && c.since {
			continue // one that began since the read gets its report by the next
		}
		o.report(c.report)
		if fresh {
			close(o.begun)
		}
	}
}
