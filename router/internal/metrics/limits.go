package metrics

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/errors"
)

// Limits counts rejections by limiter and kind. Names of limiters are the application's; so that their number
// is bounded whatever it does, the last entry is for all others.
type Limits struct {
	all atomic.Pointer[[]*rejected]
	mu  sync.Mutex // of writers
}

const maxLimits = 64

type rejected struct {
	limiter string
	kind    errors.LimitKind
	n       atomic.Int64
}

func (l *Limits) find(of *errors.LimitExceeded) *rejected {
	if all := l.all.Load(); all != nil {
		for _, e := range *all {
			if e.limiter == of.Limiter && e.kind == of.Kind {
				return e
			}
		}
		if len(*all) == maxLimits {
			return (*all)[maxLimits-1]
		}
	}
	return nil
}

// Add counts a rejection.
func (l *Limits) Add(of *errors.LimitExceeded) {
	e := l.find(of)
	if e == nil {
		e = l.insert(of)
	}
	e.n.Add(1)
}

func (l *Limits) insert(of *errors.LimitExceeded) *rejected {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.find(of); e != nil {
		return e
	}
	var all []*rejected
	if now := l.all.Load(); now != nil {
		all = slices.Clip(*now)
	}
	e := &rejected{limiter: of.Limiter, kind: of.Kind}
	if len(all) == maxLimits-1 {
		e.limiter, e.kind = Others, Others
	}
	all = append(all, e)
	l.all.Store(&all)
	return e
}

// Others stands for what has no figure of its own.
const Others = "other"

// Each calls f with each limit and how many rejections it has.
func (l *Limits) Each(f func(limiter string, kind errors.LimitKind, n int64)) {
	if now := l.all.Load(); now != nil {
		for _, e := range *now {
			f(e.limiter, e.kind, e.n.Load())
		}
	}
}
