package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// Ref names a run, in requests.
type Ref struct {
	// Run is the id of the run.
	Run string `json:"run" validate:"required,max=64"`
}

// Whole is the output of a run until now: the answer of run.attach.
type Whole struct {
	Info
	// N is the number of its last output, and Attempt that of its attempt.
	N       int `json:"n"`
	Attempt int `json:"attempt,omitempty"`
	// Text is the text, and Events are the events with how many bytes of the text are before each.
	Text   string  `json:"text"`
	Events []Event `json:"events,omitempty"`
	// Questions are those that are open.
	Questions []Question `json:"questions,omitempty"`
	// End is nil while the run goes on.
	End *End `json:"end,omitempty"`
	// Spent is how many units of the budget it has used.
	Spent      int64 `json:"spent,omitempty"`
	pos        string
	slice      Slice           // the last one
	reserved   int64           // of all
	by         string          // which try has ended it, or was the first to find that it is broken
	broken     bool            // the servers have lost a part of the output, which ends it as lost
	taken      map[string]bool // ids of messages
	closed     map[string]bool // ids of questions
	asks       int             // questions so far
	process    string          // that runs it
	restarts   int             // how often it was begun again
	input      json.RawMessage // of a run that is restartable
	checkpoint checkpoint      // the last one
}

// Event is an event of a run.
type Event struct {
	// At is how many bytes of the text come before it.
	At int `json:"at"`
	// Event is what Writer.Event got.
	Event json.RawMessage `json:"event"`
}

// attach answers with the output until now, and makes the client a subscriber of what follows.
func (rs *Runs) attach(c *router.Context, q Ref) (Whole, error) {
	w, err := rs.allowed(c, q.Run)
	if err != nil || w.End != nil {
		return w, err
	}
	c.Unsubscribe(rs.topic(q.Run)) // of a client that begins anew
	rs.mu.Lock()
	rs.attaching[q.Run]++ // it was looked at
	rs.mu.Unlock()
	err = c.SubscribeFrom(rs.topic(q.Run), w.pos)
	rs.mu.Lock()
	if rs.attaching[q.Run]--; rs.attaching[q.Run] == 0 {
		delete(rs.attaching, q.Run)
	}
	rs.mu.Unlock()
	return w, err
}

// detach ends the events of a run for the client.
func (rs *Runs) detach(c *router.Context, q Ref) (struct{}, error) {
	c.Unsubscribe(rs.topic(q.Run))
	return struct{}{}, nil
}

// allowed reads a run that the client may see.
func (rs *Runs) allowed(c *router.Context, id string) (Whole, error) {
	w, err := rs.read(c, id)
	if err == nil && w.End == nil {
		w, err = rs.stillRunning(c, id, w)
	}
	if err != nil {
		return Whole{}, err
	}
	if w.broken {
		rs.cutOff(c, w)
	}
	identity := c.Conn().Identity()
	if identity.Tenant == w.Tenant && identity.User == w.User {
		return w, nil
	}
	if rs.o.Allow == nil {
		return Whole{}, unknown(id)
	}
	if err := rs.o.Allow(c, w.Info); err != nil {
		return Whole{}, err
	}
	return w, nil
}

// stillRunning ends a run as lost that no process runs: there may have been no other one to notice that its process was
// gone, or the backend may have lost its end.
func (rs *Runs) stillRunning(ctx context.Context, id string, w Whole) (Whole, error) {
	own := w.process == rs.process
	rs.mu.Lock()
	here, registered := rs.here[id] != nil || rs.losing[id] > 0, rs.registered[member(id, w.Attempt)]
	rs.mu.Unlock()
	if own && here {
		return w, nil
	}
	if !own {
		running, err := rs.shared.Presence.Members(ctx, rs.processes())
		if err != nil {
			return w, silent(err)
		}
		if slices.ContainsFunc(running, func(m pubsub.Member) bool { return m.ID == w.process }) {
			if !registered { // its process finds out whether it runs it
				err = rs.send(ctx, w.process, input{Run: id, Attempt: w.Attempt, ID: rand.Text(), Probe: true})
			}
			return w, err
		}
	}
	lost := make(chan error, 1)
	go func() { lost <- rs.lose(rs.ctx, id, w.Attempt) }() // to its end, also if the client goes
	select {
	case err := <-lost:
		if err != nil {
			return w, err
		}
	case <-ctx.Done():
		return w, ctx.Err()
	}
	return rs.read(ctx, id)
}

// silent is the error of a backend that does not answer, which has no code.
func silent(err error) error { return errors.Unavailable.Wrap(err, "run: the backend does not answer") }

func unknown(id string) error { return errors.NotFound.Errorf("run: there is no run %.64q", id) }

// read joins the output of a run.
func (rs *Runs) read(ctx context.Context, id string) (w Whole, err error) {
	process, ok := processOf(id)
	if !ok {
		return w, unknown(id)
	}
	w.process = process
	heads, err := rs.shared.Log.Heads(ctx, []string{rs.topic(id)}) // reading would begin a log
	if err != nil {
		return w, silent(err)
	}
	if heads[0] == (pubsub.Position{}) {
		return w, unknown(id)
	}
	w.taken, w.closed = make(map[string]bool), make(map[string]bool)
	if err := rs.readOn(ctx, id, &w); err != nil {
		return w, err
	}
	if w.ID == "" {
		return w, unknown(id)
	}
	return w, nil
}

// readOn adds what is in the history behind what w has.
func (rs *Runs) readOn(ctx context.Context, id string, w *Whole) error {
	var text strings.Builder
	text.WriteString(w.Text)
	for w.isOpen() {
		page, err := rs.r.ReadHistory(ctx, rs.topic(id), router.HistoryQuery{From: w.pos, Limit: 1000})
		if err != nil {
			return err
		}
		if page.Lost != "" {
			if w.pos == "" {
				return errors.Unavailable.Errorf("run: the output was lost (%s); begin the run again", page.Lost)
			}
			*w, err = rs.read(ctx, id) // the servers have lost what was read last
			return err
		}
		for _, m := range page.Messages {
			o, ok, err := rs.outputOf(m)
			if err != nil {
				return err
			}
			if w.pos = m.Pos; ok {
				w.take(o, &text)
			}
		}
		if !page.More {
			w.pos = page.Head
			break
		}
	}
	w.Text = text.String()
	return nil
}

// outputOf reads an output. ok is false for what the application has published in the topic of a run.
func (rs *Runs) outputOf(m router.HistoryMessage) (o Output, ok bool, err error) {
	if m.Type != rs.outputs() {
		return o, false, nil
	}
	err = json.Unmarshal(m.Payload, &o)
	return o, err == nil, err
}

// isOpen reports whether the history of the run has no end yet, also if it has ended because a part is missing.
func (w *Whole) isOpen() bool { return w.End == nil || w.broken && w.by == "" }

// take adds an output, if it counts.
func (w *Whole) take(o Output, text *strings.Builder) {
	switch {
	case w.broken && w.isOpen() && o.End != nil && o.Attempt == w.Attempt: // its try gives the budget back
		w.by, w.Spent = o.By, max(w.Spent, o.Spent)
	case w.End != nil:
	case o.Restart != nil && o.Restart.After == w.Attempt:
		w.restart(o, text)
	case o.Attempt != w.Attempt || o.Restart != nil: // of a process that stood still, or was not the first to begin it again
	case o.N > w.N+1:
		w.End, w.Questions, w.broken = &End{State: Lost}, nil, true
	case o.N > w.N || o.End != nil:
		w.add(o, text)
	}
}

func (w *Whole) add(o Output, text *strings.Builder) {
	w.N = max(w.N, o.N)
	if o.Info != nil {
		w.Info, w.input = *o.Info, o.Input
	}
	text.WriteString(o.Text)
	if o.Event != nil {
		w.Events = append(w.Events, Event{text.Len(), o.Event})
	}
	if o.Question != nil {
		w.Questions = append(w.Questions, *o.Question)
		w.asks++
	}
	if o.Checkpoint != nil {
		w.checkpoint = checkpoint{o.Checkpoint, text.Len(), len(w.Events)}
	}
	if o.Taken != "" {
		w.taken[o.Taken] = true
	}
	if o.Closed != "" {
		w.closed[o.Closed] = true
		w.Questions = slices.DeleteFunc(w.Questions, func(q Question) bool { return q.ID == o.Closed })
	}
	if o.Slice != nil {
		w.slice = *o.Slice
		w.reserved += o.Slice.Units
	}
	w.Spent = max(w.Spent, o.Spent)
	if o.End != nil {
		w.End, w.by, w.Questions = o.End, o.By, nil
	}
}
