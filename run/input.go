package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// input is a message to a run, in the log of the inputs of its process.
type input struct {
	Run     string          `json:"run"`
	Attempt int             `json:"attempt,omitempty"`
	ID      string          `json:"id,omitempty"`
	To      string          `json:"to,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Stop    bool            `json:"stop,omitempty"`
	Lost    bool            `json:"lost,omitempty"`
	Probe   bool            `json:"probe,omitempty"` // asks whether the process runs it
}

// inputHistory is what is kept of the inputs of a process: they are read at once.
var inputHistory = pubsub.History{Messages: 10_000, Bytes: 16 << 20, Age: time.Hour}

// maxData bounds the data of a message to a run, in bytes, and maxInputs how many wait for it.
const (
	maxData   = 64 << 10
	maxInputs = 100
)

// Steer is the request run.steer.
type Steer struct {
	// Run is the id of the run.
	Run string `json:"run" validate:"required,max=64"`
	// ID makes it safe to send the message again: it is taken once. Empty: none.
	ID string `json:"id,omitempty" validate:"max=64"`
	// To is the id of the question that it answers. Empty: none.
	To string `json:"to,omitempty" validate:"max=64"`
	// Data is the message, of 64 KiB at most.
	Data json.RawMessage `json:"data"`
}

// Steered is its answer: whether the run has taken the message, or had ended before. The answer to a question is not
// taken either if another one was before.
type Steered struct {
	// Taken says that the run has taken the message.
	Taken bool `json:"taken"`
}

// stop ends a run, and answers when it has ended.
func (rs *Runs) stop(c *router.Context, q Ref) (End, error) {
	w, err := rs.allowed(c, q.Run)
	if err != nil {
		return End{}, err
	}
	in := input{Run: q.Run, ID: rand.Text(), Stop: true}
	if err := rs.sendAndAwait(c, &w, in, func() bool { return w.End != nil }); err != nil {
		return End{}, err
	}
	return *w.End, nil
}

// steer gives a run a message, and answers when it has taken it or ended.
func (rs *Runs) steer(c *router.Context, q Steer) (Steered, error) {
	if len(q.Data) > maxData {
		return Steered{}, errors.InvalidArgument.Errorf("run: data of %d bytes; give at most %d", len(q.Data), maxData)
	}
	w, err := rs.allowed(c, q.Run)
	if err != nil {
		return Steered{}, err
	}
	open := func(o Question) bool { return o.ID == q.To }
	if q.To != "" && !w.closed[q.To] && !slices.ContainsFunc(w.Questions, open) && w.End == nil {
		return Steered{}, errors.NotFound.Errorf("run: the run has asked no question %.64q", q.To)
	}
	in := input{Run: q.Run, ID: q.ID, To: q.To, Data: q.Data}
	if in.ID == "" {
		in.ID = rand.Text()
	}
	err = rs.sendAndAwait(c, &w, in, func() bool { return w.taken[in.ID] || w.closed[in.To] || w.End != nil })
	return Steered{w.taken[in.ID]}, err
}

// sendAndAwait sends an input to the process of a run, and reads its output until there is an outcome.
func (rs *Runs) sendAndAwait(ctx context.Context, w *Whole, in input, outcome func() bool) error {
	wake := make(chan struct{}, 1)
	watch, err := rs.shared.Log.Subscribe(ctx, rs.topic(in.Run), func(pubsub.Message) { wakeUp(wake) })
	if err != nil {
		return silent(err)
	}
	defer watch.Close()
	for sent := -1; ; { // to which attempt
		if err := rs.readOn(ctx, in.Run, w); err != nil {
			return err
		}
		if outcome() {
			return nil
		}
		if sent != w.Attempt {
			in.Attempt, sent = w.Attempt, w.Attempt
			if err := rs.send(ctx, w.process, in); err != nil {
				return err
			}
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends an input of a run to a process.
func (rs *Runs) send(ctx context.Context, process string, in input) error {
	frame, err := json.Marshal(in)
	if err != nil {
		return err
	}
	m := pubsub.Message{Topic: rs.inputs(process), Frame: frame}
	// The id is not that of the input: one that the run had no room for may be sent again.
	if _, err := rs.shared.Log.Append(ctx, m, inputHistory, rand.Text()); err != nil {
		return errors.Unavailable.Wrap(err, "run: the message may not have reached the run")
	}
	return nil
}

// listen takes the inputs of the runs of this process.
func (rs *Runs) listen(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	sub, err := rs.shared.Log.Subscribe(ctx, rs.inputs(rs.process), func(pubsub.Message) { wakeUp(wake) })
	if err != nil {
		return err
	}
	go func() {
		defer sub.Close()
		var at pubsub.Position
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
			_ = rs.untilDone(ctx, func() (err error) {
				at, err = rs.take(ctx, at)
				return err
			})
		}
	}()
	return nil
}

// take gives the inputs behind a position to their runs, and returns the position of the last one.
func (rs *Runs) take(ctx context.Context, at pubsub.Position) (pubsub.Position, error) {
	for {
		page, err := rs.shared.Log.Read(
			ctx, rs.inputs(rs.process), inputHistory, pubsub.ReadOptions{From: at, Messages: 1000, Bytes: 1 << 20},
		)
		if err != nil {
			return at, err
		}
		if page.Lost != pubsub.LossNone {
			at = pubsub.Position{} // what is there is read again: runs know the ids of what they have
			continue
		}
		for _, m := range page.Messages {
			at = m.Position
			var in input
			if json.Unmarshal(m.Frame, &in) == nil {
				rs.give(in)
			}
		}
		if !page.More {
			return at, nil
		}
	}
}

// give gives an input to a run of this process.
func (rs *Runs) give(in input) {
	w := rs.writer(in.Run)
	switch {
	case in.Probe:
		if w == nil { // its output says that it has ended, or the backend has lost that
			rs.lookAt(in.Run)
		}
		return
	case w == nil || w.attempt != in.Attempt: // it has ended, which its output says
		return
	case in.Lost:
		w.cut(ErrLost)
		return
	case in.Stop:
		w.cut(ErrStopped)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answer, asked := w.asked[in.To]
	switch {
	case w.given[in.ID]:
		return
	case asked:
		delete(w.asked, in.To)
		w.given[in.ID] = true
		answer <- in
		return
	case in.To != "", len(w.inputs) >= maxInputs:
		return
	}
	w.given[in.ID] = true
	w.inputs = append(w.inputs, in)
	wakeUp(w.arrived)
}

// Input returns the next message to the run, and says that it was taken. It waits until there is one, or ctx ends.
func (w *Writer) Input(ctx context.Context) (data json.RawMessage, err error) {
	for {
		data, ok, err := w.TryInput()
		if ok || err != nil {
			return data, err
		}
		select {
		case <-w.arrived:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.ctx.Done():
			return nil, context.Cause(w.ctx)
		}
	}
}

// TryInput is Input, and returns false if there is no message.
func (w *Writer) TryInput() (data json.RawMessage, ok bool, err error) {
	w.mu.Lock()
	if len(w.inputs) == 0 {
		w.mu.Unlock()
		return nil, false, nil
	}
	in := w.inputs[0]
	w.inputs = w.inputs[1:]
	err = w.takes(0)
	w.mu.Unlock()
	if err == nil {
		err = w.flush(&Output{Taken: in.ID})
	}
	return in.Data, err == nil, err
}
