package memory

import (
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// appendIDs are the ids of appended messages. Each is kept for IDWindow at least, and for two
// at most. They are in two maps, so that forgetting old ones costs nothing for each.
type appendIDs struct {
	mu         sync.Mutex
	young, old map[appendID]appendedAt
	since      time.Duration // when young was begun
	// What the maps take, and the ids of each log, by its epoch.
	youngBytes, oldBytes int
	youngOf, oldOf       map[uint64]int
}

// appendID is an id in the log with this epoch.
type appendID struct {
	epoch uint64
	id    string
}

type appendedAt struct {
	offset uint64
	tag    uint32
}

// idBytes is what an id takes besides its own bytes.
const idBytes = 100

// put adds an id for the message at p, and returns p, or returns the position of an earlier
// message in the same log that has the id. It adds nothing, and returns the zero Position, if all ids would
// take more than most, or those of this log more than all leave free of most: so one topic cannot use it up.
// bytes is what they take more than before.
func (a *appendIDs) put(id string, p pubsub.Position, most int64, now time.Duration) (_ pubsub.Position, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes = -a.forget(now)
	name := appendID{p.Epoch, id}
	at, ok := a.young[name]
	if !ok {
		at, ok = a.old[name]
	}
	if ok {
		return pubsub.Position{Epoch: p.Epoch, Offset: at.offset, Tag: at.tag}, bytes
	}
	more := idBytes + len(id)
	if own := a.youngOf[p.Epoch] + a.oldOf[p.Epoch]; int64(own+a.youngBytes+a.oldBytes+more) > most {
		return pubsub.Position{}, bytes
	}
	switch {
	case len(a.young)+len(a.old) == 0:
		a.young, a.youngOf, a.since = make(map[appendID]appendedAt), make(map[uint64]int), now
	case a.young == nil:
		a.young, a.youngOf = make(map[appendID]appendedAt), make(map[uint64]int)
	}
	name.id = strings.Clone(id)
	a.young[name] = appendedAt{p.Offset, p.Tag}
	a.youngBytes += more
	a.youngOf[p.Epoch] += more
	return p, bytes + more
}

// forget removes the ids that are too old, and returns how many bytes they took. a.mu is held.
func (a *appendIDs) forget(now time.Duration) (bytes int) {
	if now-a.since <= pubsub.IDWindow {
		return 0
	}
	bytes = a.oldBytes
	a.old, a.oldBytes, a.oldOf = a.young, a.youngBytes, a.youngOf
	a.young, a.youngBytes, a.youngOf = nil, 0, nil
	a.since = now
	return bytes
}

// sweep is forget for a caller without the lock.
func (a *appendIDs) sweep(now time.Duration) (bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.forget(now)
}

func (a *appendIDs) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.young)+len(a.old) == 0
}
