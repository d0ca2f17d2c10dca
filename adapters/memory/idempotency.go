package memory

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/internal/given"
)

// answers are what messages with a key were answered.
type answers struct {
	opts IdempotencyOptions

	mu       sync.Mutex
	entries  map[entryName]*entry
	subjects map[string]*share
	expiring priorityQueue[*entry] // by the ends of their times
	bytes    int                   // of all answers
}

// IdempotencyOptions bound what [NewIdempotency] returns. The zero value works. What does not fit is
// refused: a key or an answer that is kept is never dropped before its time.
//
// Of the keys, and of the bytes of answers, a subject may have as much as it leaves free. So one
// alone gets half, ten get an eleventh each, and there is room for another subject however
// many want more than that.
type IdempotencyOptions struct {
	// MaxKeys is how many keys are kept, of about 500 bytes each. Default: 100,000.
	MaxKeys int
	// MaxPerSubject is how many keys of one subject are kept at most. Default: 1,000.
	MaxPerSubject int
	// MaxBytes is how many bytes of answers are kept. A message whose answer did not fit is not handled
	// again. Default: 64 MiB.
	MaxBytes int
	// Now returns the time. Default: time.Now.
	Now func() time.Time
}

type entryName struct{ subject, key string }

// share is what is kept of one subject.
type share struct{ keys, bytes int }

type entry struct {
	name      entryName
	share     *share
	digest    string
	execution string
	answer    []byte // nil: claimed
	until     time.Time
	index     int // in expiring
}

// NewIdempotency returns an empty store for a single process. Its methods wait for nothing and ignore their contexts. It
// panics when an option is negative.
func NewIdempotency(options ...IdempotencyOptions) idempotency.Store {
	opts := given.Must("memory", "NewIdempotency", options)
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
	return &answers{opts: opts, entries: make(map[entryName]*entry), subjects: make(map[string]*share)}
}

// Begin implements [idempotency.Store].
func (s *answers) Begin(_ context.Context, c idempotency.Claim, lease time.Duration) (idempotency.State, []byte, error) {
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
func (s *answers) Renew(_ context.Context, c idempotency.Claim, lease time.Duration) error {
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
func (s *answers) Finish(_ context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
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
	}
	if of := s.shareOf(c.Subject); len(answer) > 1 && of.bytes+len(answer) > s.opts.MaxBytes-s.bytes {
		return idempotency.ErrFull
	}
	if e == nil {
		if err := s.add(c, now.Add(keep)); err != nil {
			return err
		}
		e = s.of(c)
	}
	e.answer = append([]byte{}, answer...)
	e.share.bytes += len(answer)
	s.bytes += len(answer)
	s.expire(e, now.Add(keep))
	return nil
}

// Release implements [idempotency.Store].
func (s *answers) Release(_ context.Context, c idempotency.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of(c); e != nil && e.execution == c.Execution && e.answer == nil {
		s.remove(e)
	}
	return nil
}

func (s *answers) of(c idempotency.Claim) *entry { return s.entries[entryName{c.Subject, c.Key}] }

// shareOf is what is kept of a subject, which is not noted where that is nothing.
func (s *answers) shareOf(subject string) *share {
	if of := s.subjects[subject]; of != nil {
		return of
	}
	return new(share)
}

// add claims a key until a time.
func (s *answers) add(c idempotency.Claim, until time.Time) error {
	of := s.shareOf(c.Subject)
	if of.keys >= s.opts.MaxPerSubject || of.keys >= s.opts.MaxKeys-len(s.entries) {
		return idempotency.ErrFull
	}
	e := &entry{name: entryName{c.Subject, c.Key}, share: of, digest: c.Digest, execution: c.Execution, until: until}
	s.entries[e.name] = e
	s.subjects[c.Subject] = of
	of.keys++
	heap.Push(&s.expiring, e)
	return nil
}

func (s *answers) remove(e *entry) {
	heap.Remove(&s.expiring, e.index)
	delete(s.entries, e.name)
	if e.share.keys--; e.share.keys == 0 {
		delete(s.subjects, e.name.subject)
	}
	e.share.bytes -= len(e.answer)
	s.bytes -= len(e.answer)
}

func (s *answers) expire(e *entry, until time.Time) {
	e.until = until
	heap.Fix(&s.expiring, e.index)
}

// sweep removes the entries whose time is over, and returns the time.
func (s *answers) sweep() time.Time {
	now := s.opts.Now()
	for len(s.expiring) > 0 && !now.Before(s.expiring[0].until) {
		s.remove(s.expiring[0])
	}
	return now
}

func (e *entry) before(other *entry) bool { return e.until.Before(other.until) }
func (e *entry) moveTo(place int)         { e.index = place }
