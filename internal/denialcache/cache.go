package denialcache

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/internal/table"
	"github.com/wskit/wskit/limit"
)

// Options of a [Cache]. The zero value is ready to use.
type Options struct {
	// Keys is the largest number of cached keys; 0 means 65,536, negative panics. The unit is
	// a key with up to eight words of state. A bucket takes about 100 bytes, so the default
	// bounds the memory at about 7 MB. A full cache stores no new keys, which is always safe:
	// the store is then called.
	Keys int
	// MaxAge is how long a denial is cached at most; 0 means 10 s, negative panics. A
	// refund or a reset by another process takes effect here after MaxAge at the latest.
	MaxAge time.Duration
	// Granularity is the resolution of the store's clock, if it is coarser than a
	// microsecond: the true time may be ahead of the store's instant by this much.
	// Negative panics.
	Granularity time.Duration
	// Now is a monotonic clock in microseconds, at least 0; nil means that of the process.
	// If a test sets it back, entries from later instants are not used.
	Now func() int64
}

const (
	defaultKeys   = 1 << 16
	defaultMaxAge = 10 * time.Second
	// unitsPerKey is the capacity that a key takes in the table: its slot and its words.
	unitsPerKey = 4
)

// Cache stores denials. All its methods may be called concurrently.
type Cache struct {
	space       *table.Space
	table       *table.Table
	now         func() int64
	maxAge      int64
	granularity int64
	generations [256]atomic.Uint32 // of the keys by hash, counted up by Invalidate
	hits        atomic.Int64
}

// New makes an empty cache. It panics when an option is invalid.
func New(o Options) *Cache {
	if o.Keys < 0 || o.MaxAge < 0 || o.Granularity < 0 {
		panic(fmt.Sprintf("denialcache: Options{Keys: %d, MaxAge: %v, Granularity: %v}: options must not be negative; use 0 for the default",
			o.Keys, o.MaxAge, o.Granularity))
	}
	if o.Keys == 0 {
		o.Keys = defaultKeys
	}
	if o.MaxAge == 0 {
		o.MaxAge = defaultMaxAge
	}
	if o.Now == nil {
		start := time.Now()
		o.Now = func() int64 { return time.Since(start).Microseconds() }
	}
	space := table.NewSpace(o.Keys * unitsPerKey)
	return &Cache{
		space: space, now: o.Now, maxAge: max(1, o.MaxAge.Microseconds()), granularity: o.Granularity.Microseconds(),
		table: table.New(table.Options{Variable: true, Space: space, Shards: max(16, 4*runtime.GOMAXPROCS(0))}),
	}
}

// A Miss is a call that the cache could not answer. It is a value. Put on the zero Miss
// does nothing.
type Miss struct {
	cache      *Cache
	plan       *engine.Plan
	hash       table.Hash
	sent       int64
	generation uint32
}

// Get returns true if the cached state of the key denies the cost. It then fills in d as
// the store would. Otherwise d is unchanged: call the store, and store its answer with
// [Miss.Put]. Get does not allocate, and does not keep the key.
func (m *Cache) Get(d *limit.Decision, key []byte, plan *limit.Plan, cost int64) (q Miss, denied bool) {
	q = m.miss(m.space.HashBytes(key), plan)
	return q, q.denies(d, cost)
}

func (m *Cache) miss(h table.Hash, plan *limit.Plan) Miss {
	h = h.With(plan.Compiled().Salt) // states of different shapes are different entries
	return Miss{cache: m, plan: plan.Compiled(), hash: h, sent: m.now(), generation: m.generation(h).Load()}
}

func (m *Cache) generation(h table.Hash) *atomic.Uint32 {
	return &m.generations[h.Low()%uint64(len(m.generations))]
}

// An entry is three words and the state of a key.
const (
	wordAt       = iota // the instant of the state, by the store's clock
	wordReceived        // when it was stored, by the local clock
	wordTrip            // how far the store's clock may have been ahead of wordAt at wordReceived
	wordState
)

// denies fills in d from the entry of the key, if it still denies the cost.
func (q *Miss) denies(d *limit.Decision, cost int64) bool {
	m := q.cache
	if m.table.Len() == 0 {
		return false
	}
	r := m.table.Lock(q.hash)
	defer r.Unlock()
	words := r.Words()
	if words == nil {
		return false
	}
	age := q.sent - words[wordReceived]
	if age < 0 || age >= m.maxAge {
		return false
	}
	var answer engine.Answer
	if !q.plan.Denies(&answer, words[wordState:], words[wordAt]+age, cost) {
		return false
	}
	// The store's clock may be ahead of that instant, by at most a round trip and its
	// granularity.
	if !answer.Impossible && answer.RetryAfter.Microseconds() <= words[wordTrip] {
		return false
	}
	*d = limit.Decision(answer)
	m.hits.Add(1)
	return true
}

// Put stores the answer of the store. state is the key's state after the decision (a
// denial does not change it). It is copied, and may lack zeros at its end. A denial adds
// the key to the cache; an allowed decision only updates a key that is cached already.
//
// An answer that is older than the cached one, or than a call of Invalidate, is ignored.
func (q Miss) Put(d *limit.Decision, state []int64) {
	if q.cache == nil || d.Allowed && q.cache.table.Len() == 0 {
		return
	}
	m, now := q.cache, q.cache.now()
	r := m.table.Lock(q.hash)
	defer r.Unlock()
	switch {
	case d.Allowed && !r.Found(), now < q.sent, m.generation(q.hash).Load() != q.generation:
		return
	case !r.Found():
		var room [24]int64
		words := q.entry(room[:0], d, state, now)
		m.table.InsertWords(r, q.hash, words, now+m.maxAge, now)
		return
	}
	words := r.Words()
	if words[wordAt] > d.At && now >= words[wordReceived] && now-words[wordReceived] < m.maxAge {
		return
	}
	if !r.SetWords(q.entry(words[:0], d, state, now)) {
		m.table.Delete(r, q.hash)
		return
	}
	r.SetExpires(now + m.maxAge)
}

// entry writes the words of the key's entry.
func (q *Miss) entry(words []int64, d *limit.Decision, state []int64, now int64) []int64 {
	words = append(words, d.At, now, now-q.sent+q.cache.granularity)
	words = append(words, state...)
	if len(state) < q.plan.Width || q.plan.Width == 0 {
		words = append(words[:wordState], q.plan.Complete(words[wordState:])...)
	}
	return words
}

// Invalidate removes a key, and makes the Put of all earlier misses do nothing. Call it when
// a refund or a reset of the key has returned, also with an error: later answers include
// the refund or the reset.
func (m *Cache) Invalidate(key []byte, plan *limit.Plan) {
	h := m.space.HashBytes(key).With(plan.Compiled().Salt)
	r := m.table.Lock(h)
	defer r.Unlock()
	m.generation(h).Add(1)
	m.table.Delete(r, h)
}

// Stats are figures of a [Cache].
type Stats struct {
	// Keys is the number of cached keys, including expired ones that were not evicted yet.
	Keys int
	// Hits is how many calls were answered without the store.
	Hits int64
}

// Stats returns the figures of the cache.
func (m *Cache) Stats() Stats { return Stats{Keys: m.table.Len(), Hits: m.hits.Load()} }
