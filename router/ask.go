package router

import (
	"cmp"
	"context"
	"reflect"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/cluster"
)

// AskFirst asks the question on all connections of a target, in all processes, and returns the first answer. The others
// get $ws:abort: a question that appears on all devices of a user disappears when one of them has answered it.
//
// An answer that is an error, or not valid, does not count while others may come. The error is NOT_FOUND if there is no
// connection, DEADLINE_EXCEEDED if there is no answer in QuestionOptions.Timeout, CANCELLED if ctx is cancelled,
// RESOURCE_EXHAUSTED if a process has more than 1,000 connections of the target, and UNAVAILABLE if not all processes are
// reached and those that are give no answer. If all connections have answered with errors, it is one of these: see
// [Question.Ask]. All processes have to declare the question.
func (q Question[Q, A]) AskFirst(ctx context.Context, t Target, question Q) (A, error) {
	var answer, none A
	if err := t.r.checkQuestion(q.d, question); err != nil {
		return none, err
	}
	encoded, err := q.d.encode(question)
	if err == nil {
		encoded, err = t.askFirst(ctx, q.d, encoded)
	}
	if err == nil {
		err = q.d.answer.Decode(&answer, encoded)
	}
	if err != nil {
		return none, err
	}
	return answer, nil
}

// AskJSON is [Question.AskFirst] for what other programs want to have asked: a question is named by its type, and is
// JSON, as its answer. The error is NOT_FOUND if the question is not declared, and INVALID_ARGUMENT, with [FieldError] in
// its details, for a payload that does not decode, breaks a rule, or has a member that the Go type does not have.
func (t Target) AskJSON(ctx context.Context, typ string, question []byte) (answer []byte, err error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	d := t.r.declared()[typ]
	if d == nil || d.answer == nil {
		return nil, errors.NotFound.Errorf("the question %q is not declared", typ)
	}
	value, err := d.decode(question)
	if err != nil {
		return nil, err
	}
	encoded, err := d.encode(value)
	if err != nil {
		return nil, err
	}
	return t.askFirst(ctx, d, encoded)
}

// checkQuestion returns an error for a question that this router cannot ask.
func (r *Router) checkQuestion(d *declared, question any) error {
	if r != d.group.router {
		return errors.Internal.Errorf("router: the question %q is declared at %s with another router than that of the target; use one of them", d.typ, d.place)
	}
	return r.checkDeclared(d, question)
}

// maxAsked bounds the connections of a process that are asked at once.
const maxAsked = 1000

// askFirst asks the connections of a target until one has answered.
func (t Target) askFirst(ctx context.Context, d *declared, question []byte) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	var cancel context.CancelFunc
	if d.timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, d.timeout, errNoAnswer)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	replies := make(chan cluster.Reply)
	reply := func(r cluster.Reply) {
		select {
		case replies <- r:
		case <-ctx.Done():
		}
	}
	q := cluster.Question{Type: d.typ, Payload: question, For: d.timeout}
	asked, ok := t.r.askLocal(ctx, t.name, q, reply, func() {})
	if !ok {
		return nil, errTooManyAsked
	}
	type others struct {
		asked int
		err   error
	}
	elsewhere := make(chan others, 1)
	if t.isElsewhere() {
		go func() {
			n, ok, done, err := t.r.cluster.Ask(lasting(ctx), t.name, q, reply)
			if !ok && err == nil {
				n, err = 0, errTooManyAsked
			}
			elsewhere <- others{n, err}
			<-ctx.Done()
			done()
		}()
	} else {
		elsewhere <- others{}
	}
	var failed, unreached error
	for known, answered := false, 0; !known || answered < asked; {
		select {
		case o := <-elsewhere:
			known, asked, unreached = true, asked+o.asked, o.err
		case r := <-replies:
			answered++
			if r.Code == "" {
				return r.Payload, nil
			}
			if failed == nil || r.Code != errors.Unavailable {
				failed = r.Code.New(r.Message)
			}
		case <-ctx.Done():
			return nil, errors.From(context.Cause(ctx))
		}
	}
	if asked == 0 {
		failed = errNotAsked
	}
	return nil, cmp.Or(unreached, failed)
}

var (
	errTooManyAsked = errors.ResourceExhausted.Errorf("more than %d connections are not asked at once", maxAsked)
	errNotAsked     = errors.NotFound.New("no connection is open that could be asked")
)

// askLocal asks connections of this process, and returns how many. Each has its outcome given to reply; when all have,
// done is called. It is not ok where there are more than maxAsked, and none is asked.
func (r *Router) askLocal(
	ctx context.Context, t cluster.Target, q cluster.Question, reply func(cluster.Reply), done func(),
) (n int, ok bool) {
	conns := r.local(t)
	d := r.declared()[q.Type]
	if d == nil || d.answer == nil {
		conns = nil // this process has another version of the program, whose clients do not know the question
	}
	var all sync.WaitGroup
	if ok = len(conns) <= maxAsked; !ok {
		done()
		return 0, false
	}
	for _, c := range conns {
		all.Go(func() { reply(c.replyTo(ctx, d, q.Payload)) })
	}
	go func() {
		all.Wait()
		done()
	}()
	return len(conns), true
}

// replyTo asks a connection, and checks the answer.
func (c *Conn) replyTo(ctx context.Context, d *declared, question []byte) cluster.Reply {
	payload, err := c.askEncoded(ctx, d, question)
	if err == nil {
		err = c.decodeAnswer(d, reflect.New(d.answerOf).Interface(), payload)
	}
	if err != nil {
		e := errors.From(err)
		return cluster.Reply{Code: e.Code, Message: e.Message}
	}
	return cluster.Reply{Payload: payload}
}
