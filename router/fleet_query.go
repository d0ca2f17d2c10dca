package router

import (
	"context"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// query is a question to other processes, until all that have to answer it have. fleet.mu guards
// it.
type query struct {
	done      chan struct{} // closed when it is complete
	complete  bool
	receivers int             // that the broker has sent it to; -1: not known yet
	required  map[string]bool // processes that have to answer; nil: not known yet
	from      map[string]bool // processes that have answered
	n         int
	list      []ConnInfo
	tooMany   bool
}

// answered takes an answer, the first of each process.
func (q *query) answered(process string, m *fleetMessage) {
	if q.from[process] {
		return
	}
	q.from[process] = true
	q.n += m.N
	q.tooMany = q.tooMany || m.TooMany
	if q.list = append(q.list, m.List...); len(q.list) > maxConnsListed {
		q.list, q.tooMany = nil, true
	}
	q.check()
}

// check finds out whether the query is complete.
func (q *query) check() {
	if q.complete || q.receivers < 0 || q.required == nil || len(q.from) < q.receivers || q.missing() > 0 {
		return
	}
	q.complete = true
	close(q.done)
}

// missing is how many processes have to answer and have not.
func (q *query) missing() (n int) {
	for process := range q.required {
		if !q.from[process] {
			n++
		}
	}
	return n
}

func (f *fleet) open() (name uint64, q *query) {
	q = &query{done: make(chan struct{}), receivers: -1, from: make(map[string]bool)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.queries[f.last] = q
	return f.last, q
}

func (f *fleet) close(name uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.queries, name)
}

// returned is called when a query to all has come back to this process. What others said
// before is known by then, as the messages of a topic have one order: so all processes that were
// there when the query was sent are known.
func (f *fleet) returned(name uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queries[name]
	if q == nil || q.required != nil {
		return
	}
	q.required = make(map[string]bool, len(f.peers))
	for process := range f.peers {
		if f.isKnown(process) {
			q.required[process] = true
		}
	}
	q.answered(f.process, &fleetMessage{}) // its own connections are counted without it
}

// ask sends a query to the other processes, and adds their answers.
func (f *fleet) ask(ctx context.Context, m fleetMessage) (*query, error) {
	ctx, cancel := context.WithTimeout(ctx, f.r.opts.Addressing.Timeout)
	defer cancel()
	since, err := f.awaitSettled(ctx)
	if err != nil {
		return nil, unanswered(err, "the other processes are not known")
	}
	name, q := f.open()
	defer f.close(name)
	m.Kind, m.Query = kindQuery, name
	topic, process := topicFleet, ""
	if m.ID != "" {
		process, _ = processOf(m.ID)
		topic = processTopic(process)
	}
	receivers, err := f.publishCounted(ctx, topic, m)
	if err != nil {
		return nil, unanswered(err, "the other processes are not reached")
	}
	f.mu.Lock()
	q.receivers = receivers
	unreached := false
	if process != "" {
		q.required = make(map[string]bool)
		if receivers > 0 {
			q.receivers, q.required[process] = 0, true // one may be a connection that is dead
		}
		unreached = receivers == 0 && f.isKnown(process)
	}
	q.check()
	f.mu.Unlock()
	if unreached {
		return nil, errProcessUnreached
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.queries, name) // it does not change any more
	switch {
	case q.complete && f.since.Equal(since):
		return q, nil
	case q.complete:
		return nil, unanswered(nil, "messages of other processes may have been lost")
	default:
		return nil, unanswered(err, "not all processes have answered")
	}
}

var errProcessUnreached = unanswered(nil, "the process of the connection is not reached")

// unanswered is the error of a query.
func unanswered(err error, message string) error {
	return errors.Unavailable.Wrap(err, message).WithRetryAfter(addressRetry)
}

// answer answers a query of another process.
func (f *fleet) answer(in *fleetMessage) {
	select {
	case f.answers <- struct{}{}:
	default: // the other process gets UNAVAILABLE
		return
	}
	m := *in
	go func() {
		defer func() { <-f.answers }()
		out := fleetMessage{Kind: kindAnswer, From: f.process, Query: m.Query}
		switch t := m.targetName(); m.Do {
		case doCount:
			out.N = f.r.countLocal(t)
		case doClose:
			out.N = f.r.closeLocal(t, m.Code, m.Reason)
		case doList:
			list, ok := f.r.listLocal(t)
			out.List, out.TooMany = list, !ok
		}
		ctx, cancel := context.WithTimeout(context.Background(), f.r.opts.Addressing.Timeout)
		defer cancel()
		frame, err := out.encode()
		if err != nil {
			out.List, out.TooMany = nil, true
			frame, _ = out.encode()
		}
		// Without it, the other process gets UNAVAILABLE.
		_, _ = f.broker.PublishCounted(ctx, pubsub.Message{Topic: processTopic(m.From), Frame: frame})
	}()
}

// send sends an event to a connection of another process.
func (f *fleet) send(ctx context.Context, process, id string, m pubsub.Message) error {
	ctx, cancel := context.WithTimeout(ctx, f.r.opts.Addressing.Timeout)
	defer cancel()
	if err := f.awaitReady(ctx); err != nil {
		return unanswered(err, "the other processes are not known")
	}
	head := fleetMessage{Kind: kindSend, From: f.process, ID: id}
	b, err := head.encode()
	if err != nil {
		return err
	}
	m.Topic, m.Except = processTopic(process), ""
	m.Frame = append(append(b, '\n'), m.Frame...)
	receivers, err := f.broker.PublishCounted(ctx, m)
	if err != nil {
		return errors.Unavailable.Wrap(err, "publishing failed")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if receivers == 0 && (f.isKnown(process) || !f.isSettled() || !f.hearsItself(time.Now())) {
		return errProcessUnreached
	}
	return nil
}
