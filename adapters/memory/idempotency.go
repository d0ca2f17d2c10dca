package memory

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/idempotency"
)

// Idempotency is an [idempotency.Store] for a single process. Its methods wait for nothing
// and ignore their contexts.
type Idempotency struct {
	opts IdempotencyOptions

	mu       sync.Mutex
	entries  map[entryName]*entry
	subjects map[string]int        // entries of each
	expiring priorityQueue[*entry] // by the ends of their times
	bytes    int
}

// IdempotencyOptions bound an [Idempotency]. The zero value works. What does not fit is
// refused: an answer that is kept is never dropped before its time.
type IdempotencyOptions struct {
	// MaxKeys is how many keys are kept. Default: 100,000.
	MaxKeys int
	// MaxPerSubject is how many keys of one subject are kept. Default: 1,000.
	MaxPerSubject int
	// MaxBytes is how many bytes are kept, which counts 500 for each key besides its
	// answer. A new key, or an answer, that does not fit is refused. Default: 64 MiB.
	MaxBytes int
	// Now returns the time. Default: time.Now.
	Now func() time.Time
}

type entryName struct{ subject, key string }

type entry struct {
	name      entryName
	digest    string
	execution string
	answer    []byte // nil: claimed
	until     time.Time
	index     int // in expiring
}

// entryBytes is about what an entry takes besides its answer.
const entryBytes = 500

// NewIdempotency returns an empty store. It panics when an option is negative.
func NewIdempotency(opts IdempotencyOptions) *Idempotency {
	for _, o := range []struct {
		name      string
		value     *int
		byDefault int
	}{
		{"MaxKeys", &opts.MaxKeys, 100_000}, {"MaxPerSubject", &opts.MaxPerSubject, 1000}, {"MaxBytes", &opts.MaxBytes, 64 << 20},
	} {
		switch {
		case *o.value < 0:
			panic(fmt.Sprintf("memory: IdempotencyOptions.%s is %d; it must be positive (0 for %d)", o.name, *o.value, o.byDefault))
		case *o.value == 0:
			*o.value = o.byDefault
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Idempotency{opts: opts, entries: make(map[entryName]*entry), subjects: make(map[string]int)}
}

// Begin implements [idempotency.Store].
func (s *Idempotency) Begin(_ context.Context, c idempotency.Claim, lease time.Duration) (idempotency.State, []byte, error) {
	if err := c.Check(); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	e := s.of(c)
	switch {
	case e == nil:
		return idempotency.Claimed, nil, s.add(c, now.Add(lease))
	case e.digest != c.Digest:
		return idempotency.Mismatch, nil, nil
	case e.answer != nil:
		return idempotency.Answered, bytes.Clone(e.answer), nil
	case e.execution != c.Execution:
		return idempotency.Running, nil, nil
	}
	s.expire(e, now.Add(lease))
	return idempotency.Claimed, nil, nil
}

// Renew implements [idempotency.Store].
func (s *Idempotency) Renew(_ context.Context, c idempotency.Claim, lease time.Duration) error {
	if err := c.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	e := s.of(c)
	switch {
	case e == nil:
		return s.add(c, now.Add(lease))
	case e.execution != c.Execution || e.answer != nil:
		return idempotency.ErrLost
	}
	s.expire(e, now.Add(lease))
	return nil
}

// Finish implements [idempotency.Store].
func (s *Idempotency) Finish(_ context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
	if err := c.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	e := s.of(c)
	switch {
	case e != nil && e.execution != c.Execution:
		return idempotency.ErrLost
	case e != nil && e.answer != nil: // a repeated call
		return nil
	case e == nil:
		if err := s.add(c, now.Add(keep)); err != nil {
			return err
		}
		e = s.of(c)
	}
	if s.bytes+len(answer) > s.opts.MaxBytes {
		return idempotency.ErrFull
	}
	e.answer = append([]byte{}, answer...)
	s.bytes += len(answer)
	s.expire(e, now.Add(keep))
	return nil
}

// Release implements [idempotency.Store].
func (s *Idempotency) Release(_ context.Context, c idempotency.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of(c); e != nil && e.execution == c.Execution && e.answer == nil {
		s.remove(e)
	}
	return nil
}

func (s *Idempotency) of(c idempotency.Claim) *entry { return s.entries[entryName{c.Subject, c.Key}] }

// add claims a key until a time.
func (s *Idempotency) add(c idempotency.Claim, until time.Time) error {
	if len(s.entries) >= s.opts.MaxKeys || s.subjects[c.Subject] >= s.opts.MaxPerSubject || s.bytes+entryBytes > s.opts.MaxBytes {
		return idempotency.ErrFull
	}
	e := &entry{name: entryName{c.Subject, c.Key}, digest: c.Digest, execution: c.Execution, until: until}
	s.entries[e.name] = e
	s.subjects[c.Subject]++
	s.bytes += entryBytes
	heap.Push(&s.expiring, e)
	return nil
}

func (s *Idempotency) remove(e *entry) {
	heap.Remove(&s.expiring, e.index)
	delete(s.entries, e.name)
	if s.subjects[e.name.subject]--; s.subjects[e.name.subject] == 0 {
		delete(s.subjects, e.name.subject)
	}
	s.bytes -= entryBytes + len(e.answer)
}

func (s *Idempotency) expire(e *entry, until time.Time) {
	e.until = until
	heap.Fix(&s.expiring, e.index)
}

// sweep removes the entries whose time is over, and returns the time.
func (s *Idempotency) sweep() time.Time {
	now := s.opts.Now()
	for len(s.expiring) > 0 && !now.Before(s.expiring[0].until) {
		s.remove(s.expiring[0])
	}
	return now
}

func (e *entry) before(other *entry) bool { return e.until.Before(other.until) }
func (e *entry) moveTo(place int)         { e.index = place }

var _ idempotency.Store = (*Idempotency)(nil)
