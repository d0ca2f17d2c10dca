package metrics

import (
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/histogram"
)

// Stripes is over how many cache lines is spread what each message of a connection changes.
const Stripes = 8

// Outcomes of messages: OK, or the code of the error.
const (
	OK    errors.Code = "OK"
	None  errors.Code = ""      // the message is not counted: another one stands for it
	Other errors.Code = "OTHER" // codes of an application
)

var outcomes = []errors.Code{
	OK, errors.Unauthenticated, errors.PermissionDenied, errors.InvalidArgument, errors.FailedPrecondition,
	errors.NotFound, errors.AlreadyExists, errors.Unimplemented, errors.Cancelled, errors.DeadlineExceeded,
	errors.ResourceExhausted, errors.Unavailable, errors.Aborted, errors.Internal,
}

// Type has the figures of the messages of one type.
type Type struct {
	outcomes Keyed[errors.Code] // but OK of those below
	handled  [Stripes]handled
}

// handled counts messages of batches with OK, and how long all that reached their handler took.
type handled struct {
	ok       atomic.Int64
	handling histogram.Histogram
	_        [64]byte
}

// Waits has for how long messages waited for their handler.
type Waits [Stripes]histogram.Histogram

// Init prepares a Type.
func (t *Type) Init() { t.outcomes = NewKeyed(outcomes) }

// Add counts a message that has reached no handler.
func (t *Type) Add(outcome errors.Code) { t.outcomes.Add(outcome) }

// AddHandled counts a message that has reached its handler.
func (t *Type) AddHandled(outcome errors.Code, stripe uint8, handling, waited time.Duration, waits *Waits) {
	t.outcomes.Add(outcome)
	t.handled[stripe].handling.Add(handling)
	waits[stripe].Add(waited)
}

// Snapshot returns how many messages had which outcome, and how long those took that reached their handler.
func (t *Type) Snapshot() (outcomes map[errors.Code]int64, handling histogram.Snapshot) {
	outcomes = t.outcomes.Snapshot(Other)
	for i := range t.handled {
		h := &t.handled[i]
		if n := h.ok.Load(); n > 0 {
			outcomes[OK] += n
		}
		histogram.Merge(&handling, h.handling.Snapshot())
	}
	return outcomes, handling
}

// Snapshot returns them.
func (w *Waits) Snapshot() (s histogram.Snapshot) {
	for i := range w {
		histogram.Merge(&s, w[i].Snapshot())
	}
	return s
}

// Batch has the figures of messages that one goroutine has handled since it began a batch. They are added to those of
// the type when the batch ends, or a message of another type comes. It is for one goroutine at a time.
type Batch struct {
	Stripe uint8

	of       *Type // of the messages below; nil: there are none
	ok       int64
	handling histogram.Local
	waited   histogram.Local
}

// Add counts a message that has reached its handler.
func (b *Batch) Add(t *Type, outcome errors.Code, handling, waited time.Duration, waits *Waits) {
	if b.of != t {
		b.Move(waits)
		b.of = t
	}
	if outcome == OK {
		b.ok++
	} else {
		t.outcomes.Add(outcome)
	}
	b.handling.Add(handling)
	b.waited.Add(waited)
}

// Move ends the batch.
func (b *Batch) Move(waits *Waits) {
	if b.of == nil {
		return
	}
	t := &b.of.handled[b.Stripe]
	t.ok.Add(b.ok)
	b.handling.Move(&t.handling)
	b.waited.Move(&waits[b.Stripe])
	b.of, b.ok = nil, 0
}
