package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// every is the least time between two outputs of a run, which are joined otherwise.
const every = 200 * time.Millisecond

// rare is the number of outputs after which they are ten times as rare.
const rare = maxOutputs / 2

// maxText bounds the text of an output, and maxPart an event, a question, a checkpoint and a result, in bytes. An output
// has one of each at most and fits router.Limits.MaxQueued, as that is by default, although JSON writes up to six bytes
// for one of the text.
const (
	maxText = 64 << 10
	maxPart = 256 << 10
)

// Writer writes the output of a run. Its methods may be called from any goroutine; what one writes stays in its order.
type Writer struct {
	rs          *Runs
	info        Info
	place       limit.Lease // of AtOnce
	attempt     int
	restarts    int // how often it was begun again
	restartable bool
	entered     bool            // it is one of the process
	resume      json.RawMessage // what the last checkpoint of an earlier attempt got
	ctx         context.Context
	cut         context.CancelCauseFunc

	turn sync.Mutex // held while an output is published, so that they have an order

	mu       sync.Mutex
	text     bytes.Buffer // to be written
	bytes    int          // written, with what is to be
	n        int          // outputs that were published
	timer    *time.Timer  // of the next output
	last     time.Time    // when one was published
	failed   error        // of publishing
	result   json.RawMessage
	inputs   []input
	given    map[string]bool       // ids of inputs that have arrived
	arrived  chan struct{}         // holds a token when there are inputs
	asked    map[string]chan input // open questions, by their ids; each takes one answer
	asks     int                   // questions so far
	over     bool                  // the handler has returned
	spending spending
}

func (w *Writer) init() {
	w.ctx, w.cut = context.WithCancelCause(w.rs.ctx)
	w.given, w.arrived, w.asked = make(map[string]bool), make(chan struct{}, 1), make(map[string]chan input)
}

// Info is about the run.
func (w *Writer) Info() Info { return w.info }

// Text adds to the text. If nothing was sent for 200 ms (for 2 s after 10,000 outputs), it is sent at once, which Text
// waits for; else it is sent when that time is over, joined with what follows. It fails when the run has ended or was
// stopped, when the output is full (RESOURCE_EXHAUSTED), and when what was written before could not be sent.
func (w *Writer) Text(text string) error {
	if !utf8.ValidString(text) {
		return errors.InvalidArgument.New("run: the text is not valid UTF-8")
	}
	now, err := w.append(text)
	if err != nil || !now {
		return err
	}
	return w.flush(nil) // by this goroutine: a timer and another one cost as much again (bench/cmd/runs)
}

// append adds to the text, and reports whether it is to be sent now.
func (w *Writer) append(text string) (now bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.takes(len(text)); err != nil || text == "" {
		return false, err
	}
	w.text.WriteString(text)
	wait := every - time.Since(w.last)
	if w.n > rare {
		wait += 9 * every
	}
	if wait <= 0 {
		w.last = time.Now() // what comes at the same time waits
		return true, nil
	}
	w.flushIn(wait)
	return false, nil
}

// flushIn has what was written sent after a time, if it is not sent before. w.mu is held.
func (w *Writer) flushIn(wait time.Duration) {
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, func() { _ = w.flush(nil) })
	}
}

// takes returns an error if the run takes no more output. w.mu is held.
func (w *Writer) takes(size int) error {
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case w.over:
		return errors.FailedPrecondition.New("run: the run has ended")
	case w.failed != nil:
		return w.failed
	case w.bytes+size > w.rs.o.MaxBytes || w.n+(w.text.Len()+size)/maxText >= maxOutputs-2:
		return errors.ResourceExhausted.Errorf(
			"run: the output is full; set Options.MaxBytes, or write less than %d bytes", w.rs.o.MaxBytes,
		)
	}
	w.bytes += size
	return nil
}

// encode writes a part of the output as JSON.
func encode(part string, v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	switch {
	case err != nil:
		return nil, errors.InvalidArgument.Wrap(err, "run: the "+part+" is no JSON; use another type for it")
	case len(text) > maxPart:
		return nil, errors.InvalidArgument.Errorf("run: the %s has %d bytes; give at most %d", part, len(text), maxPart)
	}
	return text, nil
}

// Event adds an event of the application, with its payload as JSON of 256 KiB at most, behind the text of before. When
// it returns nil, it is in the history of the run.
func (w *Writer) Event(payload any) error {
	event, err := encode("event", payload)
	if err != nil {
		return err
	}
	return w.write(len(event), &Output{Event: event})
}

// write publishes an output of a size behind what was written before, if the run takes it.
func (w *Writer) write(size int, o *Output) error {
	w.mu.Lock()
	err := w.takes(size)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.flush(o)
}

// Done sets the result of the run, as JSON of 256 KiB at most. Return what it returns.
func (w *Writer) Done(result any) error {
	text, err := encode("result", result)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result = text
	return nil
}

// flush publishes the text that is to be written, and an output behind it, if there is one. It does so also when the
// run was stopped before: what was taken is written.
func (w *Writer) flush(o *Output) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.rs.shared.ProcessTimeout)
	defer cancel()
	w.turn.Lock()
	defer w.turn.Unlock()
	for {
		next, due, more := w.next(o)
		if !due {
			return nil
		}
		if err := w.publish(ctx, next); err != nil || !more {
			return err
		}
	}
}

// next returns the next output: the text that is to be written, and o behind it, if there is one. It reports whether
// there is anything to publish, and whether there is more: text that has no room in the output, and o. What is written
// from now on waits: it is for the output after it.
func (w *Writer) next(o *Output) (next Output, due, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	size := w.text.Len()
	if more = size > maxText; more {
		for size = maxText; !utf8.RuneStart(w.text.Bytes()[size]); size-- {
		}
	}
	switch {
	case more:
	case o != nil:
		next = *o
	case size == 0 && w.spending.used <= w.spending.noted:
		return next, false, false
	}
	w.n++
	next.N, next.Attempt, next.Text = w.n, w.attempt, string(w.text.Next(size))
	next.Spent, w.spending.noted = w.spending.used, w.spending.used
	w.last = time.Now()
	return next, true, more
}

// publish publishes an output. It is repeated while the backend fails, until ctx ends: those who read drop what has a
// number that they have.
func (w *Writer) publish(ctx context.Context, o Output) error {
	err := w.rs.untilDone(ctx, func() error { return w.rs.output.Publish(ctx, w.rs.topic(w.info.ID), o) })
	if err != nil {
		return w.fails(err)
	}
	return nil
}

// fails notes the error of publishing, after which the output is not whole. What failed may be in the history or not;
// the end, which alone follows, has its number. Text that was to follow is dropped: nothing would show what is missing.
func (w *Writer) fails(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
	w.n--
	w.text.Reset()
	return err
}

// run runs the handler, and ends the run.
func (w *Writer) run(handle func() error) {
	defer w.leave()
	err := w.contain(handle)
	w.mu.Lock()
	w.over = true
	result := w.result
	if err == nil {
		err = w.failed // the output is not whole
	}
	w.mu.Unlock()
	e := End{State: Done, Result: result}
	switch cause := context.Cause(w.ctx); {
	case err == nil:
	case errors.Is(cause, ErrStopped):
		e = End{State: Stopped}
	case cause != nil && w.restartable && w.restarts < maxRestarts: // another process begins it again
		_ = w.flush(nil)
		return
	case cause != nil:
		e = End{State: Lost}
	default:
		e = End{State: Failed, Code: errors.CodeOf(err), Message: "internal error"}
		if coded, ok := errors.AsType[*errors.Error](err); ok && e.Code != errors.Internal {
			e.Message = coded.Message
		} else {
			w.rs.o.Logger.Error("run: a run has failed", "type", w.info.Type, "run", w.info.ID, "error", err)
		}
	}
	by := rand.Text()
	err = w.flush(&Output{End: &e, By: by})
	if stays(err) { // the last text does not fit, or the result
		w.rs.o.Logger.Error("run: a run has failed", "type", w.info.Type, "run", w.info.ID, "error", err)
		e = End{State: Failed, Code: errors.Internal, Message: "internal error"}
		err = w.flush(&Output{End: &e, By: by})
	}
	if err != nil {
		w.rs.o.Logger.Error("run: the end of a run was not written; it will be lost",
			"type", w.info.Type, "run", w.info.ID, "error", err)
		return
	}
	w.rs.count(w.info.Type, func(t *TypeStats) { t.ended(e.State) })
	if w.rs.budget == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.rs.shared.ProcessTimeout)
	defer cancel()
	_ = w.rs.untilDone(ctx, func() error {
		whole, err := w.rs.read(ctx, w.info.ID)
		if err == nil && whole.by == by {
			w.rs.giveBack(ctx, whole)
		}
		return err
	})
}

// contain returns a panic of the handler as an error.
func (w *Writer) contain(handle func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return handle()
}

// leave ends what the run has in this process.
func (w *Writer) leave() {
	w.cut(nil)
	if w.place != (limit.Lease{}) {
		w.rs.atOnce.Release(w.place)
	}
	w.rs.mu.Lock()
	if w.rs.here[w.info.ID] == w {
		delete(w.rs.here, w.info.ID)
	}
	w.rs.mu.Unlock()
	if w.entered {
		w.rs.shared.Presence.Leave(w.rs.registry(), member(w.info.ID, w.attempt))
		w.rs.running.Done()
	}
}
