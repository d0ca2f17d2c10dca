package router

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// heads looks at the ends of all logs that are followed, from time to time: the last message of a
// burst has no successor that would show its loss. One goroutine does it, while there are
// subscriptions to topics with history.
type heads struct {
	mu     sync.Mutex
	all    map[*subscription]struct{}
	cancel context.CancelFunc // of the goroutine; nil: none
}

// headsAtOnce is how many logs are looked at in one call.
const headsAtOnce = 256

// add has the log of a subscription looked at, until that is removed.
func (h *heads) add(in *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.closed.Load() { // and removed, or about to be
		return
	}
	if h.all == nil {
		h.all = make(map[*subscription]struct{})
	}
	h.all[in] = struct{}{}
	if h.cancel == nil {
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(context.Background())
		go in.router.lookAtHeads(ctx)
	}
}

func (h *heads) remove(in *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.all, in); len(h.all) == 0 && h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

func (h *heads) list() []*subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*subscription, 0, len(h.all))
	for in := range h.all {
		all = append(all, in)
	}
	return all
}

// lookAtHeads looks at them in about each Options.HistoryCheck. It also renews the tickets of
// connections that last.
func (r *Router) lookAtHeads(ctx context.Context) {
	renewed := time.Now()
	for {
		period := r.opts.HistoryCheck
		select {
		case <-time.After(period*3/4 + rand.N(period/2+1)):
		case <-ctx.Done():
			r.stats.behind.Store(0)
			return
		}
		all := r.heads.list()
		if time.Since(renewed) >= r.tickets.maxAge/4 {
			renewed = time.Now()
			for _, in := range all {
				in.renewTickets()
			}
		}
		behind := int64(0)
		for len(all) > 0 && ctx.Err() == nil {
			n := min(headsAtOnce, len(all))
			behind += r.lookAt(ctx, all[:n])
			all = all[n:]
		}
		r.stats.behind.Store(behind)
	}
}

// renewTickets sends the members of a topic new tickets.
func (in *subscription) renewTickets() {
	t := in.topic
	t.mu.Lock()
	var conns []*Conn
	if t.subscription == in {
		for _, m := range t.members {
			m.welcome()
			conns = append(conns, m.conn)
		}
	}
	t.mu.Unlock()
	flushAll(conns)
}

// lookAt compares the ends of some logs with what was delivered, and returns how many messages were
// not.
func (r *Router) lookAt(ctx context.Context, some []*subscription) (behind int64) {
	names := make([]string, len(some))
	asked := make([]pubsub.Position, len(some))
	for i, in := range some {
		names[i] = in.topic.name
		in.mu.Lock()
		asked[i] = in.log.cursor.Position()
		in.mu.Unlock()
	}
	found, err := r.readHeads(ctx, some[0].log.history.log, names)
	if err == nil && len(found) != len(names) {
		err = errHeads
	}
	if err != nil {
		if ctx.Err() == nil {
			r.reader.Failed(err)
			r.stats.readFailures.Add(1)
		}
		return 0
	}
	r.reader.Works()
	for i, in := range some {
		in.mu.Lock()
		if at := in.log.cursor.Position(); at.Epoch == found[i].Epoch && at.Offset < found[i].Offset {
			behind += int64(found[i].Offset - at.Offset)
		}
		in.log.cursor.Head(found[i], asked[i])
		in.catchUp()
		in.mu.Unlock()
	}
	return behind
}

var errHeads = errors.New("router: the broker's Heads has not returned a position for each topic")

// readHeads is Log.Heads with a bound on its time.
func (r *Router) readHeads(ctx context.Context, log pubsub.Log, topics []string) (found []pubsub.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer r.containBroker("Heads", &err)
	return log.Heads(ctx, topics)
}
