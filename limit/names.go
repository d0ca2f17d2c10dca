package limit

import (
	"cmp"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// namespaces has the limiters that New has made in this process, by what their keys begin with. It is there for one
// warning: two limiters of one name and different policies take each other's states for their own, and neither of them
// limits.
var namespaces = struct {
	sync.Mutex
	latest map[namespace]weak.Pointer[Limiter]
}{latest: make(map[namespace]weak.Pointer[Limiter])}

// namespace is where the states of a limiter are.
type namespace struct {
	store Store
	head  string
}

// warnOfOtherPolicy logs a line if a limiter has this name over this store, and another policy.
func (l *Limiter) warnOfOtherPolicy(logger *slog.Logger) {
	if !l.comparable {
		return
	}
	space := namespace{l.store, l.head}
	namespaces.Lock()
	before := namespaces.latest[space].Value()
	namespaces.latest[space] = weak.Make(l)
	namespaces.Unlock()
	runtime.AddCleanup(l, forgetNamespace, space)
	if before != nil && !samePolicy(before.plan, l.plan) {
		cmp.Or(logger, slog.Default()).Warn("limit: two limiters have one name and different policies; none of them limits",
			"limiter", l.name, "policy", l.plan.String(), "other", before.plan.String())
	}
}

// forgetNamespace is called when a limiter is gone.
func forgetNamespace(space namespace) {
	namespaces.Lock()
	defer namespaces.Unlock()
	if namespaces.latest[space].Value() == nil {
		delete(namespaces.latest, space)
	}
}

// samePolicy compares the numbers of the parts, which have their kinds: the layout of the states follows from them.
func samePolicy(a, b *Plan) bool {
	return slices.Equal(a.compiled.Numbers(nil, 0), b.compiled.Numbers(nil, 0))
}
