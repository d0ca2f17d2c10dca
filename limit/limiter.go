package limit

import (
	"context"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/internal/given"
)

// A Limiter is one limit of an application: a policy, a store to keep its state in, a namespace for
// its keys, and what to do when the store fails. It has no goroutine and needs no Close; it never
// closes the store. All its methods may be used by any number of goroutines.
type Limiter struct {
	plan *Plan
	*shared
}

// shared is what a limiter has in common with those that [Limiter.With] makes of
// it: everything but the policy.
type shared struct {
	name  string
	head  string // prefix:name
	store Store
	// The optional operations of the store, nil where it has none.
	extended ExtendedStore
	many     ManyTaker
	remote   *remote // nil for a store in this process
	shadow   bool
	counts   counts

	comparable bool // whether store can be compared with others
}

// New makes a limiter when the program starts. It panics, saying what to change, when the
// store is nil, the policy or an option is invalid, or a shared store is used without a
// name. Check a policy that comes from configuration with [Compile] first. At most one
// Options may be given.
func New(store Store, policy Policy, options ...Options) *Limiter {
	if store == nil {
		panic("limit: New with a nil store; in one process use memory.NewStore()")
	}
	plan, err := Compile(policy)
	if err != nil {
		panic(err.Error())
	}
	o := given.Must("limit", "New", options)
	_, local := store.(engine.LocalStore)
	name := o.Name
	o = o.withDefaults(store)

	s := &shared{name: o.Name, head: o.Prefix + ":" + o.Name, store: store, shadow: o.Shadow}
	s.extended, _ = store.(ExtendedStore)
	s.many, _ = store.(ManyTaker)
	s.comparable = reflect.ValueOf(store).Comparable()
	if !local {
		s.remote = newRemote(s, o)
	}
	l := &Limiter{plan: plan.within(o.Name), shared: s}
	if name != "" {
		l.warnOfOtherPolicy(o.Logger)
	}
	return l
}

// With returns this limiter under another policy: the same name and so the same
// keys, the same store, figures and failure policy, the health of the store
// included. The error is that of [Compile].
//
// What a subject has used counts under every policy of one [Plan.Shape], as it does when a program
// starts again with a changed policy. Use one policy at a time for a subject. If a larger and a
// smaller one are used in turn, neither limits: what the larger one has admitted beyond the smaller
// one looks like a clock that was set back, and is corrected.
//
// A key belongs to the limiter that began it, and not to one with another policy.
func (l *Limiter) With(policy Policy) (*Limiter, error) {
	plan, err := Compile(policy)
	if err != nil {
		return nil, err
	}
	return &Limiter{plan: plan.within(l.name), shared: l.shared}, nil
}

// Name is the namespace of the limiter's keys.
func (l *Limiter) Name() string { return l.name }

// Plan is the limiter's policy.
func (l *Limiter) Plan() *Plan { return l.plan }

// Shadow reports whether the limiter is in shadow mode ([Options].Shadow).
func (l *Limiter) Shadow() bool { return l.shadow }

// Key begins a key of this limiter in buf, which may be nil.
func (l *Limiter) Key(buf []byte) Key {
	return Key{buf: append(buf[:0], l.head...), limiter: l}
}

// Take decides whether cost fits for the subject and charges it when it does. The key is
// that of a text ([KeyOf]), or one that [Limiter.Key] of this limiter began. Take allocates
// nothing unless the store does.
//
// The error is nil whenever a decision was made, a denial included. It is INVALID_ARGUMENT
// for a cost below 1 or a key of another limiter, the context's when ctx ends first, and
// UNAVAILABLE when the store fails under [FailClosed].
func (l *Limiter) Take(ctx context.Context, key Key, cost int64) (d Decision, err error) {
	if cost < 1 || key.limiter != l {
		if key.isText() && cost >= 1 {
			return l.takeText(ctx, key, cost)
		}
		return d, l.refuse(key, cost)
	}
	if l.remote != nil {
		err = l.takeRemote(&d, ctx, key.buf, cost)
	} else {
		d, err = l.store.Take(ctx, key.buf, l.plan, cost)
	}
	if err != nil {
		return d, err
	}
	l.settle(&d, key.buf)
	return d, nil
}

// takeText is Take for a key of [KeyOf].
func (l *Limiter) takeText(ctx context.Context, key Key, cost int64) (Decision, error) {
	buf := buffers.Get().(*[]byte)
	bound := l.bindIn(*buf, key)
	d, err := l.Take(ctx, bound, cost)
	*buf = bound.buf
	buffers.Put(buf)
	return d, err
}

// bind returns a key of [KeyOf] as one of this limiter, and any other as it is.
func (l *Limiter) bind(key Key) Key {
	if !key.isText() {
		return key
	}
	return l.bindIn(nil, key)
}

// bindIn returns a key of [KeyOf] as one of this limiter, written to buf or to a larger buffer.
func (l *Limiter) bindIn(buf []byte, key Key) Key {
	bound := l.Key(buf)
	bound.buf = key.appendTo(bound.buf)
	return bound
}

// settle counts a decision, and in shadow mode neither denies nor delays.
func (l *Limiter) settle(d *Decision, key []byte) {
	l.counts.decision(d, len(key)+int(key[len(key)-1]))
	if !l.shadow {
		return
	}
	d.Wait = 0
	if !d.Allowed {
		l.counts.shadowed.Add(1)
		d.Allowed, d.Shadowed = true, true
	}
}

// refuse says what is wrong with a call; nil means nothing.
func (l *Limiter) refuse(key Key, cost int64) error {
	err := checkCost(cost)
	switch {
	case err != nil:
	case key.limiter == l:
		return nil
	case len(key.buf) == 0:
		err = errors.InvalidArgument.New("limit: the key is the zero Key: use limit.KeyOf, or begin it with the method Key of a limiter")
	default:
		err = errors.InvalidArgument.Errorf("limit: the key %q was not begun by limiter %s: use its method Key", key.buf, l.name)
	}
	l.counts.invalid.Add(1)
	return err
}

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 256)
	return &b
}}

var names atomic.Int64

// uniqueName is a name that no other limiter of this process has: '#' may not
// be part of a name that is chosen.
func uniqueName() string {
	return "#" + strconv.FormatInt(names.Add(1), 10)
}
