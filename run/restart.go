package run

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRestarts is how often a run is begun again: what kills its process each time must not kill all of them.
const maxRestarts = 2

// Restart says that a run that was lost is begun again, behind what its last checkpoint has. Of several for an attempt,
// the first in the history counts, so that a run never has two processes.
type Restart struct {
	// Process has begun it, behind the attempt with the number After.
	Process string `json:"process"`
	After   int    `json:"after,omitempty"`
}

// checkpoint is one of a run: what it got, and how much was written before it.
type checkpoint struct {
	data         json.RawMessage
	text, events int
}

// Checkpoint notes how far the run is, as JSON of 256 KiB at most, behind what was written before. If the run is restartable and its
// process is killed, another one begins it again: [Writer.Resume] has what the last checkpoint got, and what was
// written behind it is gone. When Checkpoint returns nil, it is in the history of the run.
func (w *Writer) Checkpoint(state any) error {
	data, err := encode("checkpoint", state)
	if err != nil {
		return err
	}
	return w.write(len(data), &Output{Checkpoint: data})
}

// Resume reads what the last checkpoint of the run got into a variable of its type. It returns false if there is none:
// the run begins.
func (w *Writer) Resume(state any) (ok bool, err error) {
	if w.resume == nil {
		return false, nil
	}
	return true, json.Unmarshal(w.resume, state)
}

// attemptAfter is the number of an attempt after another one. It is random: a process that has begun one of which the
// backend has lost everything, and another one that knows nothing of it, do not write the same attempt.
func attemptAfter(attempt int) int { return attempt + 1 + rand.IntN(1<<28) }

// member is the name of an attempt of a run in the registry.
func member(id string, attempt int) string {
	if attempt == 0 {
		return id
	}
	return id + "." + strconv.Itoa(attempt)
}

// attemptOf is the opposite.
func attemptOf(member string) (id string, attempt int) {
	id, n, _ := strings.Cut(member, ".")
	attempt, _ = strconv.Atoi(n)
	return id, attempt
}

// mayRestart reports whether this process may begin a run again that is lost.
func (rs *Runs) mayRestart(w Whole) bool {
	return w.input != nil && w.restarts < maxRestarts && rs.handler(w.Type) != nil
}

func (rs *Runs) isClosed() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.closed
}

// handler is that of a type which is restartable, or nil.
func (rs *Runs) handler(typ string) func(*Writer, json.RawMessage) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.again[typ]
}

// restart begins a run again, as the attempt with a number, unless another process is first.
func (rs *Runs) restart(ctx context.Context, w Whole, attempt int) error {
	o := Output{
		N: w.N + 1, Attempt: attempt, Restart: &Restart{Process: rs.process, After: w.Attempt}, Spent: w.Spent,
	}
	if err := rs.output.Publish(ctx, rs.topic(w.ID), o); err != nil {
		return err
	}
	now, err := rs.read(ctx, w.ID)
	if err != nil || now.Attempt != attempt {
		return err
	}
	rs.giveBack(ctx, w)
	rs.cutOff(ctx, w)
	rs.takeOver(ctx, now)
	return nil
}

// takeOver runs the handler of a run that this process has begun again.
func (rs *Runs) takeOver(ctx context.Context, from Whole) {
	w := &Writer{
		rs: rs, info: from.Info, attempt: from.Attempt, restarts: from.restarts, restartable: true,
		n: from.N, last: time.Now(), asks: from.asks,
		spending: spending{reserved: from.Spent, used: from.Spent, noted: from.Spent}, resume: from.checkpoint.data,
	}
	w.init()
	w.given = from.taken
	w.bytes = len(from.Text)
	for _, e := range from.Events {
		w.bytes += len(e.Event)
	}
	if rs.atOnce != nil && w.info.User != "" { // it goes on also where there is no place
		w.place, _, _ = rs.atOnce.Acquire(ctx, rs.place(w.info))
	}
	if w.enter() != nil { // this process ends, and another one finds it
		w.leave()
		return
	}
	_ = w.register(ctx) // without, the end of this process is found when a client asks for the run
	rs.count(w.info.Type, func(t *TypeStats) { t.Restarted++ })
	handle := rs.handler(w.info.Type)
	go w.run(func() error { return handle(w, from.input) })
}

// restart forgets what was written behind the last checkpoint.
func (w *Whole) restart(o Output, text *strings.Builder) {
	kept := text.String()[:w.checkpoint.text]
	text.Reset()
	text.WriteString(kept)
	w.Events = slices.Clip(w.Events[:w.checkpoint.events])
	for _, q := range w.Questions {
		w.closed[q.ID] = true
	}
	w.Questions = nil
	w.N, w.Attempt, w.process = o.N, o.Attempt, o.Restart.Process
	w.restarts++
	w.slice, w.reserved = Slice{}, w.Spent // what it had reserved is given back
}
