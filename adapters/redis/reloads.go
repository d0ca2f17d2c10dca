package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// reloads has the client of a cluster ask which node has which slots. By itself the
// client asks once a minute, and when a node redirects it; a node that is dead redirects
// nothing.
type reloads struct {
	client *goredis.ClusterClient

	mu    sync.Mutex
	until time.Time // the client is to ask until then
	timer *time.Timer
}

const (
	// reloadEvery is how often the client asks at most.
	reloadEvery = 200 * time.Millisecond
	// reloadFor is for how long after something suggested a change: for longer than a
	// circuit breaker leaves the server alone, so that what it then tries is tried at the
	// node that has taken over.
	reloadFor = 1500 * time.Millisecond
)

// changed is called when something suggests that slots have moved. It waits for nothing.
func (r *reloads) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(reloadFor)
	if r.timer == nil {
		r.client.ReloadState(context.Background())
		r.timer = time.AfterFunc(reloadEvery, r.again)
	}
}

func (r *reloads) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().After(r.until) {
		r.timer = nil
		return
	}
	r.client.ReloadState(context.Background())
	r.timer.Reset(reloadEvery)
}

// suggestsChange reports whether an error of a command may be due to slots that have
// moved, or to a node that is gone.
func suggestsChange(err error) bool {
	if _, answer := errors.AsType[goredis.Error](err); answer {
		return transient(err)
	}
	return !errors.Is(err, context.Canceled)
}
