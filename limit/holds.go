package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
)

// DefaultLease is how long a slot is held without being renewed, by default.
const DefaultLease = 30 * time.Second

// Holds hands out the slots of one limit on what is held at a time, as a [Limiter]
// does for rates: with a namespace of keys, a timeout, a circuit breaker and a
// failure policy. It remembers the slots that this process holds, for [Holds.Renew].
//
// It holds no goroutine. Over a [LocalStore], which dies with the process, nothing
// has to be renewed. Over any other, the owner calls Renew three times per lease.
// All its methods may be used by any number of goroutines.
type Holds struct {
	limiter *Limiter // of which all but its policy is used
	store   Holder
	limit   int64
	lease   time.Duration

	mu       sync.Mutex
	mine     map[Slot]struct{} // what this process holds; nil over a LocalStore
	perKey   map[string]int64  // how many of them
	renewing int
	released []released
	sending  int       // how many of the released are being sent to the store
	settled  time.Time // no call that got no answer is carried out after this
}

// A released slot is kept until the store has released it.
type released struct {
	slot  Slot
	until time.Time // its lease is over
	done  bool      // the store has released it, and may have to again
}

// retryPause is the time between two attempts to release.
const retryPause = 20 * time.Millisecond

// NewHolds makes a limit on what is held at a time. A lease of 0 means
// [DefaultLease]. It panics, saying what to change, where [New] would, and when the
// store is no [Holder] or the limit is below 1.
func NewHolds(store Store, limit int64, lease time.Duration, options ...Options) *Holds {
	if lease == 0 {
		lease = DefaultLease
	}
	holder, ok := store.(Holder)
	if !ok && store != nil {
		panic(fmt.Sprintf("limit: NewHolds over a %T, which cannot hold slots: use a store that is a limit.Holder, such as memory.NewStore", store))
	}
	if err := CheckHold(limit, lease); err != nil {
		panic(err.Error())
	}
	h := &Holds{
		limiter: New(store, TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}, options...),
		store:   holder, limit: limit, lease: lease,
	}
	if h.limiter.remote == nil {
		h.lease = forever
	} else {
		h.mine, h.perKey = make(map[Slot]struct{}), make(map[string]int64)
	}
	return h
}

// forever is the lease where nobody can outlive the store.
const forever = 100 * 365 * 24 * time.Hour

// Name is the namespace of the keys.
func (h *Holds) Name() string { return h.limiter.name }

// Limit is how many slots may be held under a key.
func (h *Holds) Limit() int64 { return h.limit }

// Lease is how long a slot is held without being renewed.
func (h *Holds) Lease() time.Duration { return h.lease }

// Local reports whether the slots live and die with this process, so that nothing
// has to be renewed.
func (h *Holds) Local() bool { return h.mine == nil }

// Key begins a key in buf, which may be nil.
func (h *Holds) Key(buf []byte) Key { return h.limiter.Key(buf) }

// Acquire takes a slot, see [Holder]. The id must be new. When the store fails, the
// failure policy decides: under [FailLocal] each process hands out the limit's worth.
//
// Once the store has been asked, the end of ctx does not end the call: only the
// answer tells whether there is a slot to release. The call takes Options.Timeout at
// most.
func (h *Holds) Acquire(ctx context.Context, key Key, id string) (slot Slot, d Decision, err error) {
	if err := h.limiter.refuse(key, 1); err != nil {
		return slot, d, err
	}
	slot = Slot{Key: key.String(), ID: id}
	if h.Local() {
		d, err = h.store.Acquire(ctx, slot, h.limit, h.lease)
	} else {
		d, err = h.acquireRemote(ctx, slot)
	}
	if err == nil {
		d.Policy = h.limiter.name
		h.limiter.settle(&d, key)
	}
	return slot, d, err
}

func (h *Holds) acquireRemote(ctx context.Context, slot Slot) (Decision, error) {
	if ctx.Err() != nil {
		return Decision{}, context.Cause(ctx)
	}
	d, failed, err := h.limiter.guard(context.WithoutCancel(ctx), func(ctx context.Context) (Decision, error) {
		return h.store.Acquire(ctx, slot, h.limit, h.lease)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	unclear := failed != nil && !leftAlone(failed)
	if unclear {
		h.doubt()
	}
	if failed != nil {
		d, err = h.failOver(slot, failed)
	}
	switch {
	case err == nil && d.Allowed:
		if _, again := h.mine[slot]; !again {
			h.mine[slot] = struct{}{}
			h.perKey[slot.Key]++
		}
	case unclear:
		h.release(slot) // the store may hold it all the same
	}
	return d, err
}

// doubt notes a call that got no answer. The store may carry it out later than calls
// that come after it, and so hold again what was released. Until that is over,
// releases are repeated. h.mu is held.
func (h *Holds) doubt() { h.settled = time.Now().Add(h.lease / 3) }

// release keeps a slot for the next call to the store. h.mu is held.
func (h *Holds) release(slot Slot) {
	h.released = append(h.released, released{slot: slot, until: time.Now().Add(2 * h.lease)})
}

// failOver decides in the store's stead.
func (h *Holds) failOver(slot Slot, failed error) (Decision, error) {
	l := h.limiter
	l.countFailure(failed)
	held := h.perKey[slot.Key]
	d := Decision{Allowed: held < h.limit || l.failsOpen(), Limit: h.limit, Remaining: max(0, h.limit-held-1)}
	if l.remote.onFailure == FailClosed && !l.shadow {
		return Decision{}, unavailable(failed)
	}
	return d, nil
}

// Held counts the slots under a key, those of other processes included.
func (h *Holds) Held(ctx context.Context, key Key) (int64, error) {
	return h.store.Held(ctx, key.String())
}

// Mine counts the slots that this process has to renew or to release: none over a
// [LocalStore].
func (h *Holds) Mine() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mine) + len(h.released) + h.sending
}

// Release gives slots back. When the store cannot be reached it returns an error, and
// the next call of Release, Renew or Flush repeats it, until the lease is over.
func (h *Holds) Release(ctx context.Context, slots ...Slot) error {
	if h.Local() {
		return h.store.Release(ctx, slots)
	}
	h.ReleaseLater(slots...)
	return h.flush(ctx)
}

// ReleaseLater is Release without a call to the store, which the next call of
// Release, Renew or Flush makes. Over a [LocalStore] nothing has to be made later.
func (h *Holds) ReleaseLater(slots ...Slot) {
	if h.Local() {
		_ = h.store.Release(context.Background(), slots) // neither waits nor fails
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slots {
		if _, ok := h.mine[s]; !ok {
			continue
		}
		delete(h.mine, s)
		if h.perKey[s.Key]--; h.perKey[s.Key] == 0 {
			delete(h.perKey, s.Key)
		}
		h.release(s)
	}
}

// Flush waits until the store has released all slots that were released before, or
// their leases are over. It repeats calls that fail. When ctx ends first, the error
// is that of ctx and of the store.
func (h *Holds) Flush(ctx context.Context) error {
	if h.Local() {
		return nil
	}
	for {
		failed := h.flush(ctx)
		left := h.unreleased()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("limit: %d slots of %s are not released before the end of their lease: %w", left, h.Name(), context.Cause(ctx)), failed)
		case <-time.After(retryPause):
		}
	}
}

// unreleased counts the released slots that the store has not released yet.
func (h *Holds) unreleased() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.sending
	for _, r := range h.released {
		if !r.done {
			n++
		}
	}
	return n
}

// flush has the store release what was released, unless a renewal is under way: that
// might reach the store later and would hold the slots again.
func (h *Holds) flush(ctx context.Context) error {
	h.mu.Lock()
	if h.renewing > 0 || len(h.released) == 0 {
		h.mu.Unlock()
		return nil
	}
	sent := h.released
	h.released = nil
	h.sending += len(sent)
	h.mu.Unlock()

	slots := make([]Slot, len(sent))
	for i, r := range sent {
		slots[i] = r.slot
	}
	began := time.Now()
	err := h.tell(ctx, slots, h.store.Release)

	h.mu.Lock()
	defer h.mu.Unlock()
	h.sending -= len(sent)
	for _, r := range sent {
		r.done = r.done || err == nil
		finally := err == nil && !began.Before(h.settled)
		if !finally && began.Before(r.until) {
			h.released = append(h.released, r)
		}
	}
	return err
}

// Renew holds all slots of this process for another lease.
func (h *Holds) Renew(ctx context.Context) error {
	h.mu.Lock()
	slots := make([]Slot, 0, len(h.mine))
	for s := range h.mine {
		slots = append(slots, s)
	}
	h.renewing++
	h.mu.Unlock()
	err := h.tell(ctx, slots, func(ctx context.Context, slots []Slot) error { return h.store.Renew(ctx, slots, h.lease) })
	h.mu.Lock()
	if err != nil && !leftAlone(err) {
		h.doubt()
	}
	h.renewing--
	h.mu.Unlock()
	return errors.Join(err, h.flush(ctx))
}

// tellAtOnce bounds the slots of one call.
const tellAtOnce = 1000

func (h *Holds) tell(ctx context.Context, slots []Slot, what func(context.Context, []Slot) error) error {
	for len(slots) > 0 {
		n := min(len(slots), tellAtOnce)
		_, failed, err := h.limiter.guard(ctx, func(ctx context.Context) (Decision, error) {
			return Decision{}, what(ctx, slots[:n])
		})
		if failed != nil || err != nil {
			return errors.Join(failed, err)
		}
		slots = slots[n:]
	}
	return nil
}
