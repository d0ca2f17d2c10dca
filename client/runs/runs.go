// Package runs follows runs on a server of package run: work that goes on when its connection ends.
//
//	r, err := runs.Start(ctx, c, "ask", Question{"why?"})
//	…
//	for p, err := range r.Pieces(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(p.Text)
//	}
//
// The pieces come from the beginning, none is missing, and none comes twice, over all connections.
package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
)

// Options configure [Start] and [Attach]. The zero value works.
type Options struct {
	// Name is run.Options.Name of the server.
	//
	// Default: "run".
	Name string
	// Request are the options of the request that begins the run.
	//
	// Default: those of client.Request.
	Request client.MessageOptions
}

// Run is a run on the server. Its methods may be called from any goroutine.
type Run struct {
	c        *client.Client
	name, id string
}

// Start begins a run by a request. At most one Options may be given.
func Start(ctx context.Context, c *client.Client, typ string, payload any, opts ...Options) (*Run, error) {
	o := given.Must("runs", "Start", opts)
	began, err := client.Request[struct {
		Run string `json:"run"`
	}](ctx, c, typ, payload, o.Request)
	return Attach(c, began.Run, o), err
}

// Attach returns the run with an id: on another device, or in another process. At most one Options may be given.
func Attach(c *client.Client, id string, opts ...Options) *Run {
	return &Run{c: c, name: cmp.Or(given.Must("runs", "Attach", opts).Name, "run"), id: id}
}

// ID is the id of the run.
func (r *Run) ID() string { return r.id }

// End is how a run has ended.
type End struct {
	// State is "done", "failed", "stopped", or "lost" if its process was killed.
	State string `json:"state"`
	// Result is what the handler has given to Writer.Done.
	Result json.RawMessage `json:"result"`
	// Code and Message are those of the error of a run that has failed.
	Code    errors.Code `json:"code"`
	Message string      `json:"message"`
}

// Question is a question of a run.
type Question struct {
	// ID is what [Run.Answer] takes.
	ID string `json:"id"`
	// Question is what the handler asks.
	Question json.RawMessage `json:"question"`
}

// Piece is a part of the output of a run. One of its fields is set.
type Piece struct {
	// Text follows the text of before.
	Text string
	// Event is an event of the handler.
	Event json.RawMessage
	// Question waits for an answer, and Closed is the id of one that waits no more.
	Question *Question
	Closed   string
	// Spent is how many units of the budget the run has used.
	Spent int64
	// Reset says that what came before does not count: everything comes again.
	Reset bool
	// End is in the last piece.
	End *End
}

// Pieces returns the output of the run from its beginning to its end, which is the last piece. The error is that of
// ctx, the one of the client if it was closed, or that of the server, such as NOT_FOUND; the sequence ends behind it.
func (r *Run) Pieces(ctx context.Context) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		w := r.watch()
		defer w.leave()
		for at, resets := 0, 0; ; {
			w.mu.Lock()
			var p Piece
			ready, err := true, error(nil)
			switch {
			case resets != w.resets:
				at, resets, p.Reset = 0, w.resets, true
			case at < len(w.pieces):
				p = w.pieces[at]
				at++
			case w.err != nil:
				err = w.err
			default:
				ready = false
			}
			changed := w.changed
			w.mu.Unlock()
			if ready {
				if !yield(p, err) || err != nil || p.End != nil {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Piece{}, context.Cause(ctx))
				return
			}
		}
	}
}

// Stop stops the run, and says how it has ended.
func (r *Run) Stop(ctx context.Context) (End, error) {
	return ask[End](ctx, r, "stop", message{})
}

// Steer gives the run a message, as JSON. It returns true if the run has taken it, and false if it had ended before.
func (r *Run) Steer(ctx context.Context, data any) (taken bool, err error) {
	return r.Answer(ctx, "", data)
}

// Answer answers a question of the run, as JSON. It returns false if the question was open no more.
func (r *Run) Answer(ctx context.Context, question string, data any) (taken bool, err error) {
	a, err := ask[struct {
		Taken bool `json:"taken"`
	}](ctx, r, "steer", message{ID: rand.Text(), To: question, Data: data})
	return a.Taken, err
}

// message is the payload of the requests about a run.
type message struct {
	Run  string `json:"run"`
	ID   string `json:"id,omitempty"`
	To   string `json:"to,omitempty"`
	Data any    `json:"data,omitempty"`
}

// ask makes a request that the server takes once, again and again until there is an answer.
func ask[A any](ctx context.Context, r *Run, what string, m message) (A, error) {
	m.Run = r.id
	for {
		a, err := client.Request[A](ctx, r.c, r.name+"."+what, m)
		if !errors.Is(err, client.ErrUnknownOutcome) || ctx.Err() != nil || r.c.State().Phase == client.Closed {
			return a, err
		}
	}
}
