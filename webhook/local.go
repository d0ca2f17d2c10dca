package webhook

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/pattern"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// local reports the facts of this process to all: each that is true is a member of a list in the presence, which has it
// until this process says otherwise or has ended.
type local struct {
	w *Webhook
	r *router.Router

	mu      sync.Mutex
	open    map[string]fact   // connections, by their ids
	changed map[fact]struct{} // to be reported
	wake    chan struct{}
}

// retry is the pause before a call to the backend is repeated.
const retry = time.Second

// atOnce is how many facts are reported at the same time.
const atOnce = 64

func newLocal(w *Webhook, r *router.Router) *local {
	l := &local{w: w, r: r, open: make(map[string]fact), changed: make(map[fact]struct{}), wake: make(chan struct{}, 1)}
	h := router.Hooks{OnTopic: func(topic string) {
		if slices.ContainsFunc(w.o.Topics, func(p string) bool { return pattern.Covers(p, topic) }) {
			l.note(fact{Kind: topics, Topic: topic})
		}
	}}
	if w.o.Connections {
		h.OnOpen = func(c *router.Conn) error {
			id := c.Identity()
			f := fact{Kind: connections, Connection: c.ID(), Tenant: id.Tenant, User: id.User}
			l.mu.Lock()
			l.open[c.ID()] = f
			l.mu.Unlock()
			l.note(f)
			return nil
		}
		h.OnClose = func(c *router.Conn, _ router.CloseInfo) {
			l.mu.Lock()
			f := l.open[c.ID()]
			delete(l.open, c.ID())
			l.mu.Unlock()
			l.note(f)
		}
	}
	r.AddHooks(h)
	return l
}

// note has a fact reported that may have changed.
func (l *local) note(f fact) {
	l.mu.Lock()
	l.changed[f] = struct{}{}
	l.mu.Unlock()
	wakeUp(l.wake)
}

// is reports whether a fact is true here.
func (l *local) is(f fact) bool {
	if f.Kind == topics {
		return l.r.LocalSubscribers(f.Topic) > 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.open[f.Connection]
	return open
}

// run reports what has changed, until ctx ends. What is true then stays reported until the presence is closed.
func (l *local) run(ctx context.Context) {
	reported := make(map[fact]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		todo := l.changed
		l.changed = make(map[fact]struct{})
		l.mu.Unlock()
		failed := false
		for part := range slices.Chunk(slices.Collect(maps.Keys(todo)), atOnce) {
			for f, err := range l.reportAll(ctx, part, reported) {
				if err != nil {
					failed = true
					delete(reported, f)
					l.note(f)
				}
			}
		}
		if failed {
			sleep(ctx, retry)
		}
	}
}

// reportAll reports some facts, those that are true at once, and returns the outcome of each of these.
func (l *local) reportAll(ctx context.Context, facts []fact, reported map[fact]bool) map[fact]error {
	outcomes := make(map[fact]error)
	var mu sync.Mutex
	var joining sync.WaitGroup
	for _, f := range facts {
		is := l.is(f)
		switch {
		case is == reported[f]:
		case is:
			reported[f] = true
			joining.Go(func() {
				err := l.w.shared.Presence.Join(ctx, l.list(f), pubsub.Member{ID: l.id(f), Data: []byte(f.key())})
				mu.Lock()
				defer mu.Unlock()
				outcomes[f] = err
			})
		default:
			delete(reported, f)
			l.w.shared.Presence.Leave(l.list(f), l.id(f))
		}
	}
	joining.Wait()
	return outcomes
}

func (l *local) list(f fact) string { return l.w.names.facts + strconv.Itoa(f.shard()) }
func (l *local) id(f fact) string   { return l.w.self + " " + f.key() }

// sleep waits, and reports whether ctx has not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
