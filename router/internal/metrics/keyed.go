// Package metrics counts what a router does: by key, by type of message, by limit, and what is under way.
//
// Needed are the keys by which is counted. Promised: how many figures there are does not depend on what clients send;
// what is counted for each message is spread over a few cache lines, so that connections do not wait for one another;
// counting takes no memory. All methods may be called from any goroutine, but for those of a Batch.
package metrics

import (
	"slices"
	"sync/atomic"
)

// Keyed counts by one of a few keys, and everything else together.
type Keyed[K comparable] struct {
	keys []K
	n    []atomic.Int64 // one more than keys
}

// NewKeyed makes a Keyed. The keys must not be changed.
func NewKeyed[K comparable](keys []K) Keyed[K] {
	return Keyed[K]{keys, make([]atomic.Int64, len(keys)+1)}
}

// Add counts one more of a key.
func (k *Keyed[K]) Add(key K) {
	i := slices.Index(k.keys, key)
	if i < 0 {
		i = len(k.keys)
	}
	k.n[i].Add(1)
}

// Snapshot returns what is not 0, under the key other what has none of the keys.
func (k *Keyed[K]) Snapshot(other K) map[K]int64 {
	all := make(map[K]int64)
	for i := range k.n {
		key := other
		if i < len(k.keys) {
			key = k.keys[i]
		}
		if n := k.n[i].Load(); n != 0 {
			all[key] = n
		}
	}
	return all
}
