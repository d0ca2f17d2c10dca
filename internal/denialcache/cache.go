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
	// Keys bounds how many keys are remembered; 0 means 65,536, negative panics. It counts
	// keys of up to eight words of state; a bucket's takes about 100 bytes, so the default
	// bounds the memory at about 7 MB. Where there is no room, nothing is remembered, which is
	// always safe.
	Keys int
	// MaxAge is how long a denial is remembered at most; 0 means 10 s, negative
	// panics. It bounds how long a refund or a reset through another process goes
	// unnoticed here.
	MaxAge time.Duration
	// Granularity is in what steps the store's clock counts, when they are larger
	// than a microsecond: by so much it may be ahead of the instant it names.
	// Negative panics.
	Granularity time.Duration
	// Now is a clock in microseconds, at least 0, that does not go back; nil means
	// the monotonic clock of the process. When it does go back, for a test, what
	// was stored later is not used.
	Now func() int64
}

const (
	defaultKeys   = 1 << 16
	defaultMaxAge = 10 * time.Second
	// keyRoom is the room of a key in units of the table: its slot and its words.
	keyRoom = 4
)

// Cache remembers denials. All its methods may be used by any number of
// goroutines.
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
		panic(fmt.Sprintf("denialcache: Options{Keys: %d, MaxAge: %v, Granularity: %v}: leave what is negative 0 for the default",
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
	space := table.NewSpace(o.Keys * keyRoom)
	return &Cache{
		space: space, now: o.Now, maxAge: max(1, o.MaxAge.Microseconds()), granularity: o.Granularity.Microseconds(),
		table: table.New(table.Options{Variable: true, Space: space, Shards: max(16, 4*runtime.GOMAXPROCS(0))}),
	}
}

// A Miss is a question that the cache could not answer. It is a value; Put of the zero
// Miss does nothing.
type Miss struct {
	cache      *Cache
	plan       *engine.Plan
	hash       table.Hash
	sent       int64
	generation uint32
}

// Get answers a cost that the remembered state of the key denies: it fills in d
// as the store would, and reports true. Otherwise d is left alone and the store
// has to be asked; [Miss.Put] of what is returned then stores its answer.
// It allocates nothing and keeps nothing of the key.
func (m *Cache) Get(d *limit.Decision, key []byte, plan *limit.Plan, cost int64) (q Miss, denied bool) {
	q = m.miss(m.space.HashBytes(key), plan)
	return q, q.denies(d, cost)
}

func (m *Cache) miss(h table.Hash, plan *limit.Plan) Miss {
	h = h.With(plan.Compiled().Salt) // state of another shape is another entry
	return Miss{cache: m, plan: plan.Compiled(), hash: h, sent: m.now(), generation: m.generation(h).Load()}
}

func (m *Cache) generation(h table.Hash) *atomic.Uint32 {
	return &m.generations[h.Low()%uint64(len(m.generations))]
}

// An entry is the state of a key, behind three words.
const (
	wordAt       = iota // the store's instant at which that was the state
	wordReceived        // when it was stored, by the local clock
	wordTrip            // how far the store's clock may be ahead of wordAt then
	wordState
)

// denies answers from the entry of the key, if it still denies the cost.
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
	// The store's clock may be ahead of that instant, by a round trip at most and
	// what is less than a step of it.
	if !answer.Impossible && answer.RetryAfter.Microseconds() <= words[wordTrip] {
		return false
	}
	*d = limit.Decision(answer)
	m.hits.Add(1)
	return true
}

// Put stores what the store answered. state is the key's state as the decision
// left it, which of a denial is the state that it was made from; it may be
// shorter than the plan's when the rest is zero, and is copied. Only denials are
// remembered; what was allowed is noted where the key is remembered already.
//
// An answer that is older than a stored one, or than a call of Invalidate, is not stored.
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

// Invalidate forgets a key, and with it all answers that are on their way. Call it
// when a refund or a reset of the key has returned, also with an error: what is asked
// afterwards is answered with it.
func (m *Cache) Invalidate(key []byte, plan *limit.Plan) {
	h := m.space.HashBytes(key).With(plan.Compiled().Salt)
	r := m.table.Lock(h)
	defer r.Unlock()
	m.generation(h).Add(1)
	m.table.Delete(r, h)
}

// Stats are figures of a [Cache].
type Stats struct {
	// Keys is how many keys are remembered, those included that no longer deny but
	// have not been dropped yet.
	Keys int
	// Hits is how many costs were answered without the store.
	Hits int64
}

// Stats returns the figures of the cache.
func (m *Cache) Stats() Stats { return Stats{Keys: m.table.Len(), Hits: m.hits.Load()} }
