// Package presenceview keeps lists of who is present on topics, and sends them, and what changes, to those that watch.
//
// Needed are the presence, a way to send a frame to a watcher, and how long a list may be. Promised: a watcher gets the
// list first, and then each change once and in order, or a list again; what a change costs does not depend on how many
// are present; changes come together, the more of them the more are present. A topic's presence is asked for as long as
// somebody watches it, once for all. All methods may be called from any goroutine; no lock is held while the presence
// is waited for.
package presenceview

import (
	"context"
	"sync"
	"time"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
)

// Watcher is a connection that watches a topic.
type Watcher interface {
	// Send sends a frame. It does not wait.
	Send(*frame.Shared)
}

// Views are the topics that are watched in this process. The fields are set before the first use.
type Views struct {
	MaxList int // bytes of the longest list that is sent
	// Panicked reports a panic of the presence, and returns it as an error. v is nil for runtime.Goexit.
	Panicked func(where string, v any) error

	mu sync.Mutex
	m  map[string]*View
}

// View is a topic's presence. It is watched while connections watch it. What a report
// costs does not depend on how many members there are: it marks what has changed, and the
// changes are sent together.
type View struct {
	views  *Views
	topic  string
	refs   int                // connections that watch, and calls that are about to; guarded by Views.mu
	cancel context.CancelFunc // of Watch
	ready  chan struct{}      // closed when Watch has returned; sub and err are set before
	sub    pubsub.Subscription
	err    error

	sending sync.Mutex // orders what is sent to a connection: its list, and the changes after it

	mu      sync.Mutex
	members map[string]pubsub.Member
	users   map[string]map[string]struct{} // the IDs of each user's members
	lists   [2]list                        // by member and by user
	timer   *time.Timer                    // sends the changes; nil: none
	sent    time.Time                      // when they were sent last
	ended   bool
}

// Acquire waits until a topic is watched. The View is held until it is released, also by Leave.
func (vs *Views) Acquire(ctx context.Context, w pubsub.PresenceWatcher, topic string) (*View, error) {
	v := vs.acquire(w, topic)
	var err error
	select {
	case <-v.ready:
		err = v.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		v.Release()
		return nil, err
	}
	return v, nil
}

// acquire finds or makes a view, and holds it until it is released as often.
func (vs *Views) acquire(w pubsub.PresenceWatcher, topic string) *View {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.m[topic]
	if v == nil {
		ctx, cancel := context.WithCancel(context.Background())
		v = &View{
			views: vs, topic: topic, cancel: cancel, ready: make(chan struct{}), refs: 1, // of begin
			members: make(map[string]pubsub.Member), users: make(map[string]map[string]struct{}),
		}
		if vs.m == nil {
			vs.m = make(map[string]*View)
		}
		vs.m[topic] = v
		go v.begin(ctx, w)
	}
	v.refs++
	return v
}

// begin begins to watch.
func (v *View) begin(ctx context.Context, w pubsub.PresenceWatcher) {
	vs := v.views
	defer v.Release()
	returned := false
	defer func() {
		if !returned {
			v.err = vs.Panicked("the presence's Watch", recover())
		}
		if v.err != nil { // the next call tries again, even if it comes before this has been released
			vs.mu.Lock()
			if vs.m[v.topic] == v {
				delete(vs.m, v.topic)
			}
			vs.mu.Unlock()
		}
		close(v.ready)
	}()
	v.sub, v.err = w.Watch(ctx, v.topic, v.report)
	returned = true
}

// Release ends the watching with the last hold.
func (v *View) Release() {
	vs := v.views
	vs.mu.Lock()
	v.refs--
	refs := v.refs
	if refs == 0 && vs.m[v.topic] == v {
		delete(vs.m, v.topic)
	}
	vs.mu.Unlock()
	if refs > 0 {
		if refs == 1 {
			v.cancelUnused()
		}
		return
	}
	v.cancel()
	v.mu.Lock()
	v.ended = true
	if v.timer != nil {
		v.timer.Stop()
	}
	v.mu.Unlock()
	if v.sub != nil {
		_ = v.sub.Close()
	}
}

// cancelUnused has begin give up when no call waits for it any more.
func (v *View) cancelUnused() {
	select {
	case <-v.ready: // the last hold is a connection's
		return
	default:
	}
	vs := v.views
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v.refs == 1 && vs.m[v.topic] == v {
		delete(vs.m, v.topic)
		v.cancel()
	}
}

// Leave is Remove for a watcher that has left the topic, and releases its hold.
func (v *View) Leave(w Watcher) {
	v.Remove(w)
	v.Release()
}
