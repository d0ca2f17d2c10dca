package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

const (
	// MaxList bounds the connections in the answers to List.
	MaxList = 10_000
	// Retry is when what failed for the broker is worth another try.
	Retry = time.Second
)

// Count returns how many connections of other processes there are.
func (c *Cluster[C]) Count(ctx context.Context, t Target) (int, error) {
	q, err := c.ask(ctx, t, message[C]{Do: doCount})
	return q.n, err
}

// List describes connections of other processes. It is not ok where there are too many.
func (c *Cluster[C]) List(ctx context.Context, t Target) (list []C, ok bool, err error) {
	q, err := c.ask(ctx, t, message[C]{Do: doList})
	return q.list, !q.tooMany, err
}

// Close closes connections of other processes, and returns how many it has closed.
func (c *Cluster[C]) Close(ctx context.Context, t Target, code errors.CloseCode, reason string) (int, error) {
	q, err := c.ask(ctx, t, message[C]{Do: doClose, Code: code, Reason: reason})
	return q.n, err
}

// Subscribe makes connections of other processes members of topics, and returns how many are members of all. failed is
// the code of an error where others are not.
func (c *Cluster[C]) Subscribe(ctx context.Context, t Target, topics []string) (n int, failed errors.Code, err error) {
	q, err := c.ask(ctx, t, message[C]{Do: doSubscribe, Topics: topics})
	return q.n, q.failed, err
}

// Unsubscribe ends memberships of connections of other processes, and returns how many had one.
func (c *Cluster[C]) Unsubscribe(ctx context.Context, t Target, topics []string) (int, error) {
	q, err := c.ask(ctx, t, message[C]{Do: doUnsubscribe, Topics: topics})
	return q.n, err
}

// Revoke returns when the other processes have carried out a revocation.
func (c *Cluster[C]) Revoke(ctx context.Context, t Target, at pubsub.Position) error {
	_, err := c.ask(ctx, t, message[C]{Do: doRevoke, Pos: at.String()})
	return err
}

// query is a question to other processes, until all that have to answer it have. Cluster.mu guards it.
type query[C any] struct {
	done      chan struct{} // closed when it is complete
	complete  bool
	receivers int             // that the broker has sent it to; -1: not known yet
	required  map[string]bool // processes that have to answer; nil: not known yet
	from      map[string]bool // processes that have answered
	n         int
	list      []C
	tooMany   bool
	failed    errors.Code
}

// answered takes an answer, the first of each process.
func (q *query[C]) answered(process string, m *message[C]) {
	if q.from[process] {
		return
	}
	q.from[process] = true
	q.n += m.N
	q.tooMany = q.tooMany || m.TooMany
	q.failed = cmp.Or(q.failed, m.Failed)
	if q.list = append(q.list, m.List...); len(q.list) > MaxList {
		q.list, q.tooMany = nil, true
	}
	q.check()
}

// check finds out whether the query is complete.
func (q *query[C]) check() {
	if q.complete || q.receivers < 0 || q.required == nil || len(q.from) < q.receivers || q.missing() > 0 {
		return
	}
	q.complete = true
	close(q.done)
}

// missing is how many processes have to answer and have not.
func (q *query[C]) missing() (n int) {
	for process := range q.required {
		if !q.from[process] {
			n++
		}
	}
	return n
}

func (c *Cluster[C]) open() (name uint64, q *query[C]) {
	q = &query[C]{done: make(chan struct{}), receivers: -1, from: make(map[string]bool)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.queries[c.last] = q
	return c.last, q
}

func (c *Cluster[C]) close(name uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queries, name)
}

// returned is called when a query to all has come back to this process. What others said
// before is known by then, as the messages of a topic have one order: so all processes that were
// there when the query was sent are known.
func (c *Cluster[C]) returned(name uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queries[name]
	if q == nil || q.required != nil {
		return
	}
	q.required = make(map[string]bool, len(c.peers))
	for process := range c.peers {
		if c.isKnown(process) {
			q.required[process] = true
		}
	}
	q.answered(c.id, &message[C]{}) // its own connections are counted without it
}

// ask sends a query to the other processes, and adds their answers.
func (c *Cluster[C]) ask(ctx context.Context, t Target, m message[C]) (answers query[C], err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	since, err := c.awaitSettled(ctx)
	if err != nil {
		return answers, unanswered(err, "the other processes are not known")
	}
	name, q := c.open()
	defer c.close(name)
	m.Kind, m.Query = kindQuery, name
	m.Topic, m.ID, m.Except = t.Topic, t.ID, t.Except
	topic, process := c.topicOfAll(), ""
	if t.ID != "" {
		process, _ = processOf(t.ID)
		topic = c.topicOf(process)
	}
	receivers, err := c.publishCounted(ctx, topic, m)
	if err != nil {
		return answers, unanswered(err, "the other processes are not reached")
	}
	c.mu.Lock()
	q.receivers = receivers
	unreached := false
	if process != "" {
		q.required = make(map[string]bool)
		if receivers > 0 {
			q.receivers, q.required[process] = 0, true // one may be a connection that is dead
		}
		unreached = receivers == 0 && c.isKnown(process)
	}
	q.check()
	c.mu.Unlock()
	if unreached {
		return answers, errProcessUnreached
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queries, name) // it does not change any more
	switch {
	case q.complete && c.since.Equal(since):
		return *q, nil
	case q.complete:
		return answers, unanswered(nil, "messages of other processes may have been lost")
	default:
		return answers, unanswered(err, fmt.Sprintf("%d of the other processes have not answered", q.missing()))
	}
}

var errProcessUnreached = unanswered(nil, "the process of the connection is not reached")

// unanswered is the error of a query.
func unanswered(err error, message string) error {
	return errors.Unavailable.Wrap(err, message).WithRetryAfter(Retry)
}

// answer answers a query of another process.
func (c *Cluster[C]) answer(in *message[C]) {
	select {
	case c.answers <- struct{}{}:
	default: // the other process gets UNAVAILABLE
		return
	}
	m := *in
	var asking context.Context
	if m.Do == doAsk {
		asking = c.begins(&m) // before the next message is looked at, which may say that it is over
	}
	go func() {
		defer func() { <-c.answers }()
		ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
		defer cancel()
		out := message[C]{Kind: kindAnswer, From: c.id, Query: m.Query}
		switch t := m.target(); m.Do {
		case doCount:
			out.N = c.config.Count(t)
		case doClose:
			out.N = c.config.Close(t, m.Code, m.Reason)
		case doSubscribe:
			out.N, out.Failed = c.config.Subscribe(t, m.Topics)
		case doUnsubscribe:
			out.N = c.config.Unsubscribe(t, m.Topics)
		case doList:
			list, ok := c.config.List(t)
			out.List, out.TooMany = list, !ok
		case doAsk:
			n, ok := c.asked(asking, &m)
			out.N, out.TooMany = n, !ok
		case doRevoke:
			at, err := pubsub.ParsePosition(m.Pos)
			if err == nil {
				err = c.config.Revoke(ctx, at)
			}
			if err != nil { // the other process gets UNAVAILABLE
				return
			}
		}
		frame, err := out.encode()
		if err != nil {
			out.List, out.TooMany = nil, true
			frame, _ = out.encode()
		}
		// Without it, the other process gets UNAVAILABLE.
		_, _ = c.config.Broker.PublishCounted(ctx, pubsub.Message{Topic: c.topicOf(m.From), Frame: frame})
	}()
}

// Send sends an event to a connection of another process.
func (c *Cluster[C]) Send(ctx context.Context, id string, m pubsub.Message) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	if err := c.AwaitReady(ctx); err != nil {
		return unanswered(err, "the other processes are not known")
	}
	head := message[C]{Kind: kindSend, From: c.id, ID: id}
	b, err := head.encode()
	if err != nil {
		return err
	}
	process, _ := processOf(id)
	m.Topic, m.Except = c.topicOf(process), ""
	m.Frame = append(append(b, '\n'), m.Frame...)
	receivers, err := c.config.Broker.PublishCounted(ctx, m)
	if err != nil {
		return errors.Unavailable.Wrap(err, "publishing failed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if receivers == 0 && (c.isKnown(process) || !c.isSettled() || !c.hearsItself(time.Now())) {
		return errProcessUnreached
	}
	return nil
}
