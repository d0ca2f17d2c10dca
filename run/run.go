// Package run keeps work that outlives the connection on which it was begun: an answer of a language model, a report,
// an import. Its output goes on when the page reloads, is seen on the other devices of the user, and has one end.
//
//	runs, err := run.New(r)
//	…
//	run.Handle(runs, "ask", func(ctx context.Context, q Ask, w *run.Writer) error {
//		for word := range model.Stream(ctx, q.Text) {
//			if err := w.Text(word); err != nil {
//				return err
//			}
//		}
//		return nil
//	})
//
// A request of the type begins a run, and is answered with its id at once. The output of a run is a topic with history:
// what is written is joined, and appended five times a second at most. Events of other types that the application
// publishes there are no output. These requests are about a run:
//
//	run.attach  the output until now, in one answer, and what follows as events run.output
//	run.stop    ends it: the answer is how it has ended
//	run.steer   gives it a message, or the answer to a question: the answer is whether it was taken
//	run.detach  ends the events: of each run that a client attaches to, when it has ended or is watched no more
//
// A run ends once, as done, failed or stopped, or as lost if its process was killed. The first end in the history
// counts for all, so a process that stood still cannot end a run that others call lost.
package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/internal/shared"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// State is how a run is.
type State string

// The states. All but Running are ends.
const (
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Stopped State = "stopped"
	// Lost is a run whose process was killed, or stood still for longer than the ProcessTimeout.
	Lost State = "lost"
)

// ErrStopped is the cause of the end of the context of a run that was stopped, and ErrLost that of one which other
// processes call lost.
var (
	ErrStopped = errors.Aborted.New("run: the run was stopped")
	ErrLost    = errors.Aborted.New("run: the process stood still for too long, and the run is lost")
)

// Info is about a run.
type Info struct {
	// ID is the id of the run, which cannot be guessed.
	ID string `json:"run"`
	// Type is that of the request which has begun it.
	Type string `json:"type"`
	// Tenant and User are those of the client that has begun it.
	Tenant string `json:"tenant,omitempty"`
	User   string `json:"user,omitempty"`
	// Begun is when it was begun, by the clock of its process.
	Begun time.Time `json:"begun"`
}

// End is how a run has ended.
type End struct {
	// State is not Running.
	State State `json:"state"`
	// Result is what [Writer.Done] got.
	Result json.RawMessage `json:"result,omitempty"`
	// Code and Message are those of the error of a run that has failed.
	Code    errors.Code `json:"code,omitempty"`
	Message string      `json:"message,omitempty"`
}

// Output is a part of the output of a run, and the payload of the event run.output.
type Output struct {
	// Attempt is the number of the attempt: 0 for the first, and a higher one each time the run is begun again. Outputs
	// of another attempt than that of the last Restart do not count.
	Attempt int `json:"attempt,omitempty"`
	// Restart says that the run is begun again: what was attached to is out of date.
	Restart *Restart `json:"restart,omitempty"`
	// Checkpoint is what [Writer.Checkpoint] got, and Input the request of a run that is restartable.
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	// N is its number, from 1 on, without holes. What has a number of before is the same again, unless it has the End.
	// What comes behind the End does not count.
	N int `json:"n"`
	// Info is in the first one.
	Info *Info `json:"info,omitempty"`
	// Text follows the text of before.
	Text string `json:"text,omitempty"`
	// Event is what [Writer.Event] got.
	Event json.RawMessage `json:"event,omitempty"`
	// Question is what [Ask] asks.
	Question *Question `json:"question,omitempty"`
	// Taken is the id of a message that the run has taken.
	Taken string `json:"taken,omitempty"`
	// Slice is a part of the budget that the run has reserved, and Spent is how many units it has used until now.
	Slice *Slice `json:"slice,omitempty"`
	Spent int64  `json:"spent,omitempty"`
	// Closed is the id of a question that is open no more: it was answered if there is Taken, and else given up.
	Closed string `json:"closed,omitempty"`
	// End is in the last one. By says which try of a process has written it.
	End *End   `json:"end,omitempty"`
	By  string `json:"by,omitempty"`
}

// Runs are the runs of a router. Its methods may be called from any goroutine.
type Runs struct {
	o       Options
	r       *router.Router
	shared  shared.Backend
	process string // random; the ids of its runs begin with it
	output  router.Event[Output]
	ctx     context.Context // ends when Wait has waited
	end     context.CancelFunc
	atOnce  *limit.ConcurrencyLimit // nil: no limit
	budget  *limit.Limiter          // nil: none
	running sync.WaitGroup          // runs that have entered
	unsure  chan string             // ids of runs that may have no process any more
	outage  outage.Reporter

	mu         sync.Mutex
	here       map[string]*Writer // runs of this process, by their ids
	registered map[string]bool    // attempts of runs of all processes, as the watch has reported them
	attaching  map[string]int     // how many clients are subscribing to a run
	losing     map[string]int     // how many calls of lose are under way for a run, which may begin it again
	types      map[string]*TypeStats
	again      map[string]func(w *Writer, input json.RawMessage) error // handlers of types that are restartable
	closed     bool                                                    // none begins any more
}

// processOf is the process of a run, or not ok if the id has none.
func processOf(id string) (process string, ok bool) {
	process, _, ok = strings.Cut(id, "-")
	return process, ok && len(process) == processLength
}

// wakeUp puts a token into a channel for one.
func wakeUp(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// New makes the runs of a router, which has not served a connection yet. When the router shuts down, none begins any
// more, those there are may finish in its time, and the others end as lost. It fails if an option makes no sense, or if
// the router's backend cannot share runs.
func New(r *router.Router, options ...Options) (*Runs, error) {
	o := given.Must("run", "New", options)
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	// JSON writes up to six bytes for one of the text.
	history := router.HistoryOptions{Messages: maxOutputs, Bytes: 6*o.MaxBytes + maxOutputs*overhead, Age: o.Keep}
	r.History(o.Name+":*", history)
	b, err := shared.Of("run", r.Backend()) // which has a log then
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	rs := &Runs{
		o: o, r: r, shared: b, process: rand.Text()[:processLength], ctx: ctx, end: end, here: make(map[string]*Writer),
		registered: make(map[string]bool), attaching: make(map[string]int), losing: make(map[string]int),
		unsure: make(chan string, maxUnsure),
		types:  map[string]*TypeStats{"": newTypeStats("")},
		again:  make(map[string]func(*Writer, json.RawMessage) error),
		outage: outage.Reporter{
			Component: "run", Name: o.Name, Log: o.Logger,
			Failing: "run: the backend fails; trying again", Working: "run: the backend works again",
		},
	}
	if o.AtOnce > 0 {
		rs.atOnce = limit.NewConcurrencyLimit(b.Limits, limit.ConcurrencyOptions{
			Max: int64(o.AtOnce), LeaseTime: b.ProcessTimeout, Limiter: limit.Options{Name: o.Name + ".at-once"},
		})
	}
	if o.Budget != nil {
		if _, ok := b.Limits.(limit.ExtendedStore); !ok {
			return nil, fmt.Errorf("run: Options.Budget with the Limits %T; use a limit.ExtendedStore, "+
				"such as that of redis.Open", b.Limits)
		}
		rs.budget = limit.New(b.Limits, o.Budget, limit.Options{
			Name: o.Name + ".budget", Timeout: b.ProcessTimeout, OnFailure: limit.FailClosed, Logger: o.Logger,
		})
		router.RPC(r, o.Name+".budget", rs.left, router.RouteOptions{Doc: "What is left of the budget of the user."})
	}
	rs.output = router.Declare[Output](r, rs.outputs(), router.EventOptions{Doc: "a part of the output of a run"})
	router.RPC(r, o.Name+".attach", rs.attach, router.RouteOptions{
		Doc: "The output of a run until now. What follows comes as events " + o.Name + ".output.",
	})
	router.RPC(r, o.Name+".detach", rs.detach, router.RouteOptions{Doc: "Ends the events of a run."})
	router.RPC(r, o.Name+".stop", rs.stop, router.RouteOptions{
		Concurrent: true, Timeout: b.ProcessTimeout + stopTime, Doc: "Stops a run. The answer says how it has ended.",
	})
	router.RPC(r, o.Name+".steer", rs.steer, router.RouteOptions{
		Concurrent: true, Timeout: b.ProcessTimeout + stopTime, Doc: "Gives a run a message, or the answer to a question.",
	})
	r.AddHooks(router.Hooks{OnShutdown: rs.Wait, OnTopic: rs.onTopic})
	for _, begin := range []func(context.Context) error{rs.listen, rs.watch, rs.join} {
		if err := begin(ctx); err != nil {
			end()
			return nil, err
		}
	}
	return rs, nil
}

// join makes this process one of those that have runs.
func (rs *Runs) join(ctx context.Context) error {
	return rs.shared.Presence.Join(ctx, rs.processes(), pubsub.Member{ID: rs.process})
}

const (
	processLength = 16
	// maxOutputs bounds the outputs of a run: 5 a second for half an hour, and rarer ones then.
	maxOutputs = 20_000
	overhead   = 200 // bytes of an output without its text
	// stopTime is how long a run may take to end that was stopped.
	stopTime = 10 * time.Second
)

// Began is the answer of a request that begins a run.
type Began struct {
	// Run is the id of the run.
	Run string `json:"run"`
}

// HandleOptions are options of [Handle]. The zero value works.
type HandleOptions struct {
	// Route are the options of the request that begins a run.
	//
	// Default: those of router.RPC.
	Route router.RouteOptions
	// Restartable has another process begin a run again whose process was killed or has shut down, twice at most: from
	// its request, and behind its last [Writer.Checkpoint]. What the handler does between two checkpoints may happen
	// again.
	//
	// Default: false: such a run is lost.
	Restartable bool
}

// Handle registers requests that begin a run. handle runs in a goroutine of its own, and its context ends when the run
// is stopped and when it is lost: context.Cause says which. The run is done when it returns nil, and else failed, with
// the code of the error; the text of one without a code stays on the server.
func Handle[Q any](
	rs *Runs, typ string, handle func(ctx context.Context, q Q, w *Writer) error, opts ...HandleOptions,
) {
	o := given.Must("run", "Handle", opts)
	o.Route.Doc = cmp.Or(o.Route.Doc, "Begins a run: see "+rs.o.Name+".attach.")
	rs.mu.Lock()
	rs.types[typ] = newTypeStats(typ)
	if o.Restartable {
		rs.again[typ] = func(w *Writer, input json.RawMessage) error {
			var q Q
			if err := json.Unmarshal(input, &q); err != nil {
				return err
			}
			return handle(w.ctx, q, w)
		}
	}
	rs.mu.Unlock()
	router.RPC(rs.r, typ, func(c *router.Context, q Q) (Began, error) {
		var input json.RawMessage
		if o.Restartable {
			var err error
			if input, err = json.Marshal(q); err != nil {
				return Began{}, err
			}
		}
		w, err := rs.begin(c, typ, input)
		if err != nil {
			return Began{}, err
		}
		rs.count(typ, func(t *TypeStats) { t.Begun++ })
		go w.run(func() error { return handle(w.ctx, q, w) })
		return Began{w.info.ID}, nil
	}, o.Route)
}

// topic is that of the output of a run, and outputs is the type of its events.
func (rs *Runs) topic(id string) string { return rs.o.Name + ":" + id }
func (rs *Runs) outputs() string        { return rs.o.Name + ".output" }

// The names of what the processes share, which no topic of a client has.
func (rs *Runs) inputs(process string) string { return "$ws:run:" + rs.o.Name + ":in:" + process }
func (rs *Runs) registry() string             { return "$ws:run:" + rs.o.Name + ":all" }
func (rs *Runs) processes() string            { return "$ws:run:" + rs.o.Name + ":processes" }

// begin begins a run for a client.
func (rs *Runs) begin(c *router.Context, typ string, input json.RawMessage) (w *Writer, err error) {
	identity := c.Conn().Identity()
	w = &Writer{rs: rs, restartable: input != nil, info: Info{
		ID: rs.process + "-" + rand.Text(), Type: typ, Tenant: identity.Tenant, User: identity.User, Begun: time.Now().UTC(),
	}}
	w.init()
	if rs.atOnce != nil {
		key := rs.place(w.info)
		if w.info.User == "" {
			key = key.Part(c.Conn().ID())
		}
		lease, d, err := rs.atOnce.Acquire(c, key)
		if err != nil {
			return nil, err
		}
		if !d.Allowed {
			return nil, errors.ResourceExhausted.Errorf("run: %d runs are going on; stop one of them", rs.o.AtOnce)
		}
		w.place = lease
	}
	first := Output{Info: &w.info, Input: input}
	switch {
	case rs.budget == nil:
	case w.info.User == "":
		err = errors.Unauthenticated.New("run: a run with a budget needs a user")
	default:
		first.Slice, err = w.reserve(c, 1)
	}
	if err == nil {
		if err = w.enter(); err == nil {
			err = w.register(c)
		}
		if err != nil {
			err = errors.Join(err, rs.refund(c, w.info, w.spending.slice, w.spending.reserved))
		}
	}
	if err == nil {
		next, _, _ := w.next(&first)
		err = w.publish(c, next)
	}
	if err != nil {
		w.leave()
		return nil, err
	}
	return w, nil
}

// place is the key of the user of a run for AtOnce.
func (rs *Runs) place(i Info) limit.Key { return rs.atOnce.Key(nil).Part(i.Tenant).Part(i.User) }

// writer is that of a run of this process, or nil.
func (rs *Runs) writer(id string) *Writer {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.here[id]
}

// enter makes the run one of this process.
func (w *Writer) enter() error {
	rs := w.rs
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return errors.Unavailable.New("run: the server is shutting down")
	}
	rs.here[w.info.ID] = w
	rs.running.Add(1) // closed is not set yet, so Wait waits for it
	w.entered = true
	return nil
}

// register has other processes see the end of this one.
func (w *Writer) register(ctx context.Context) error {
	m := pubsub.Member{ID: member(w.info.ID, w.attempt), User: w.info.User}
	if err := w.rs.shared.Presence.Join(ctx, w.rs.registry(), m); err != nil {
		return silent(err)
	}
	return nil
}

// Wait ends the runs of this process: it begins no more, waits for those there are until ctx ends, and ends the others
// as lost, for which it waits 10 s more. The router calls it when it shuts down; call it before, for more time than
// [router.Router.Serve] has.
func (rs *Runs) Wait(ctx context.Context) {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	defer rs.end()
	defer rs.shared.Presence.Leave(rs.processes(), rs.process)
	over := make(chan struct{})
	go func() { rs.running.Wait(); close(over) }()
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	rs.mu.Lock()
	for _, w := range rs.here {
		w.cut(ErrLost)
	}
	rs.mu.Unlock()
	select {
	case <-over:
	case <-time.After(stopTime): // a handler ignores its context
	}
}
