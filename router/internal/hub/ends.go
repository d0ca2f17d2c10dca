package hub

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// ends looks at the ends of all logs that are followed, from time to time: the last message of a
// burst has no successor that would show its loss. One goroutine does it, while there are
// subscriptions to topics with history.
type ends struct {
	mu     sync.Mutex
	all    map[*subscription]struct{}
	cancel context.CancelFunc // of the goroutine; nil: none
}

// endsAtOnce is how many logs are looked at in one call.
const endsAtOnce = 256

// add has the log of a subscription looked at, until that is removed.
func (e *ends) add(in *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if in.closed.Load() { // and removed, or about to be
		return
	}
	if e.all == nil {
		e.all = make(map[*subscription]struct{})
	}
	e.all[in] = struct{}{}
	if e.cancel == nil {
		var ctx context.Context
		ctx, e.cancel = context.WithCancel(context.Background())
		go in.hub.lookAtEnds(ctx)
	}
}

func (e *ends) remove(in *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.all, in); len(e.all) == 0 && e.cancel != nil {
		e.cancel()
		e.cancel = nil
	}
}

func (e *ends) list() []*subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*subscription, 0, len(e.all))
	for in := range e.all {
		all = append(all, in)
	}
	return all
}

// lookAtEnds looks at them in about each Config.EndsCheck. It also renews the tickets of
// connections that last.
func (h *Hub) lookAtEnds(ctx context.Context) {
	renewed := time.Now()
	for {
		period := h.EndsCheck
		select {
		case <-time.After(period*3/4 + rand.N(period/2+1)):
		case <-ctx.Done():
			h.Counts.Behind.Store(0)
			return
		}
		all := h.ends.list()
		if time.Since(renewed) >= h.TicketRenew {
			renewed = time.Now()
			for _, in := range all {
				in.renewTickets()
			}
		}
		behind := int64(0)
		for len(all) > 0 && ctx.Err() == nil {
			n := min(endsAtOnce, len(all))
			behind += h.lookAt(ctx, all[:n])
			all = all[n:]
		}
		h.Counts.Behind.Store(behind)
	}
}

// renewTickets sends the members of a topic new tickets.
func (in *subscription) renewTickets() {
	t := in.topic
	t.mu.Lock()
	var peers []*Peer
	if t.subscription == in {
		for _, m := range t.members {
			m.welcome()
			peers = append(peers, m.peer)
		}
	}
	t.mu.Unlock()
	flushAll(peers)
}

// lookAt compares the ends of some logs with what was delivered, and returns how many messages were
// not.
func (h *Hub) lookAt(ctx context.Context, some []*subscription) (behind int64) {
	names := make([]string, len(some))
	asked := make([]pubsub.Position, len(some))
	for i, in := range some {
		names[i] = in.topic.name
		in.mu.Lock()
		asked[i] = in.log.cursor.Position()
		in.mu.Unlock()
	}
	found, err := h.readEnds(ctx, some[0].log.history.Log, names)
	if err == nil && len(found) != len(names) {
		err = errEnds
	}
	if err != nil {
		if ctx.Err() == nil {
			h.logs.Failed(err)
			h.Counts.ReadFailures.Add(1)
		}
		return 0
	}
	h.logs.Works()
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

var errEnds = errors.New("router: the broker's Heads has not returned a position for each topic")

// readEnds is Log.Heads with a bound on its time.
func (h *Hub) readEnds(ctx context.Context, log pubsub.Log, topics []string) (found []pubsub.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer h.containBroker("Heads", &err)
	return log.Heads(ctx, topics)
}
