package runs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
)

// watches are the runs that are watched: each once, since a second subscription would begin the first one anew.
var watches = struct {
	sync.Mutex
	all map[Run]*watch
}{all: make(map[Run]*watch)}

// watch joins what the server sends of a run.
type watch struct {
	run  *Run
	used int // how many read it; guarded by watches
	ctx  context.Context
	stop func()

	mu      sync.Mutex
	pieces  []Piece       // since the beginning, or the last reset
	resets  int           // how many there were
	err     error         // why no more pieces come
	changed chan struct{} // closed at the next change

	n          int // of the last output
	attempt    int // at the run, whose outputs count
	text       strings.Builder
	events     int
	spent      int64
	open       []string // questions
	over       bool
	loading    bool
	early      []output // outputs that came before the answer
	subscribed bool
}

// output is the event run.output.
type output struct {
	N        int             `json:"n"`
	Attempt  int             `json:"attempt"`
	Restart  *struct{}       `json:"restart"`
	Text     string          `json:"text"`
	Event    json.RawMessage `json:"event"`
	Question *Question       `json:"question"`
	Closed   string          `json:"closed"`
	Spent    int64           `json:"spent"`
	End      *End            `json:"end"`
}

// whole is the answer of run.attach.
type whole struct {
	N       int    `json:"n"`
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
	Events  []struct {
		At    int             `json:"at"`
		Event json.RawMessage `json:"event"`
	} `json:"events"`
	Questions []Question `json:"questions"`
	Spent     int64      `json:"spent"`
	End       *End       `json:"end"`
}

// watch returns the watch of a run, for one that reads it and calls leave.
func (r *Run) watch() *watch {
	watches.Lock()
	defer watches.Unlock()
	w := watches.all[*r]
	if w == nil {
		w = &watch{run: r, changed: make(chan struct{})}
		w.begin()
		watches.all[*r] = w
	}
	w.used++
	return w
}

// leave ends the watch behind the last one that reads it.
func (w *watch) leave() {
	watches.Lock()
	defer watches.Unlock()
	if w.used--; w.used == 0 {
		w.stop()
		delete(watches.all, *w.run)
	}
}

// begin begins to watch.
func (w *watch) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	topic := w.run.name + ":" + w.run.id
	off := client.On(w.run.c, w.run.name+".output", func(_ context.Context, o output, m client.Meta) {
		if m.Topic == topic {
			w.take(o)
		}
	})
	end := client.Keep(w.run.c, topic, client.Keeping{Open: func(_ context.Context, all bool) error {
		if !all {
			return nil
		}
		err := w.load()
		if err != nil && !errors.From(err).Retryable() {
			w.fail(err)
			err = nil
		}
		return err
	}})
	w.stop = func() {
		cancel()
		off()
		end()
		w.mu.Lock()
		subscribed := w.subscribed
		w.mu.Unlock()
		if subscribed {
			go func() { // without a connection there is no subscription either
				_, _ = ask[struct{}](context.Background(), w.run, "detach", message{})
			}()
		}
	}
	go func() {
		s, err := w.run.c.Wait(ctx, func(s client.State) bool { return s.Phase == client.Closed })
		if err == nil {
			w.fail(errors.Join(client.ErrClosed, s.Err))
		}
	}()
}

// fail ends the pieces with an error.
func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.wake()
}

// wake wakes those that read. w.mu is held.
func (w *watch) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// load gets the output until now, and what follows.
func (w *watch) load() error {
	for {
		if again, err := w.loadOnce(); err != nil || !again {
			return err
		}
	}
}

// loadOnce returns true if an output that came before the answer says that the run has to be attached to again.
func (w *watch) loadOnce() (again bool, err error) {
	w.mu.Lock()
	w.loading, w.early = true, nil
	w.mu.Unlock()
	all, err := ask[whole](w.ctx, w.run, "attach", message{})
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	w.loading = false
	if err != nil {
		return false, err
	}
	w.subscribed = all.End == nil
	w.addWhole(all)
	return slices.ContainsFunc(w.early, w.next), nil
}

// take takes an output. It is called in their order, and may not wait.
func (w *watch) take(o output) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.loading:
		w.early = append(w.early, o)
	case w.next(o): // it is to be attached to again
		w.loading = true
		go func() {
			if err := w.load(); err != nil {
				w.fail(err)
			}
		}()
	default:
		w.wake()
	}
}

// next adds an output if it is the next one. It returns true if the run has to be attached to again. w.mu is held.
func (w *watch) next(o output) (again bool) {
	switch {
	case o.Restart != nil && o.Attempt > w.attempt: // what was written behind the last checkpoint is gone
		return true
	case o.Attempt != w.attempt || o.N <= w.n && o.End == nil:
		return false
	case o.N > w.n+1: // one is missing
		return true
	}
	w.add(o)
	w.n = o.N
	return false
}

// add adds what is new in an output. w.mu is held.
func (w *watch) add(o output) {
	piece := func(p Piece) { w.pieces = append(w.pieces, p) }
	if w.over {
		return
	}
	if o.Text != "" {
		w.text.WriteString(o.Text)
		piece(Piece{Text: o.Text})
	}
	if o.Event != nil {
		w.events++
		piece(Piece{Event: o.Event})
	}
	if o.Question != nil {
		w.open = append(w.open, o.Question.ID)
		piece(Piece{Question: o.Question})
	}
	if o.Closed != "" {
		w.open = slices.DeleteFunc(w.open, func(id string) bool { return id == o.Closed })
		piece(Piece{Closed: o.Closed})
	}
	if o.Spent > w.spent {
		w.spent = o.Spent
		piece(Piece{Spent: o.Spent})
	}
	if o.End != nil {
		w.over = true
		piece(Piece{End: o.End})
	}
}

// addWhole adds what is new in the output until now, or begins anew if it does not continue what there is. w.mu is
// held.
func (w *watch) addWhole(all whole) {
	w.attempt = all.Attempt
	if all.N < w.n || len(all.Events) < w.events || !strings.HasPrefix(all.Text, w.text.String()) {
		w.pieces, w.n, w.events, w.spent, w.open = nil, 0, 0, 0, nil
		w.text.Reset()
		w.resets++
	}
	for _, e := range all.Events[w.events:] {
		at := min(max(e.At, w.text.Len()), len(all.Text))
		w.add(output{Text: all.Text[w.text.Len():at], Event: e.Event})
	}
	w.add(output{Text: all.Text[w.text.Len():]})
	for _, id := range slices.Clone(w.open) {
		if !slices.ContainsFunc(all.Questions, func(q Question) bool { return q.ID == id }) {
			w.add(output{Closed: id})
		}
	}
	for _, q := range all.Questions {
		if !slices.Contains(w.open, q.ID) {
			w.add(output{Question: &q})
		}
	}
	w.add(output{Spent: all.Spent, End: all.End})
	w.n = all.N
}
