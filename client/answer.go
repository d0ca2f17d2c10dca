package client

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// maxQuestions is how many questions are answered at once, as many as a server asks by default.
const maxQuestions = 64

type answerer func(context.Context, jsontext.Value) (jsontext.Value, error)

// Answer calls answer for each question of a type (router.DeclareQuestion), and sends what it returns. Each call has a
// goroutine of its own, and a context that ends when the server does not wait any longer, or the connection has ended.
// An error is sent in place of an answer, with its code and message as errors.From finds them; one without a code, and
// a panic, are reported to Options.OnError. A second Answer
// of the same type replaces the first. Questions without one are answered UNIMPLEMENTED.
func Answer[Q, A any](c *Client, typ string, answer func(context.Context, Q) (A, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[typ] = func(ctx context.Context, payload jsontext.Value) (_ jsontext.Value, err error) {
		defer contain(&err)
		q, err := decode[Q](typ, payload)
		if err != nil {
			return nil, errors.InvalidArgument.Wrap(err, "the question does not decode")
		}
		a, err := answer(ctx, q)
		if err != nil {
			return nil, err
		}
		return payloadOf(typ, a)
	}
}

// question takes a question.
func (l *link) question(f *frame) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	id := f.Meta.CorrelationID
	answer := l.c.answers[f.Type]
	switch {
	case answer == nil:
		l.pushAnswer(id, nil, errors.Unimplemented.New("the client does not answer questions of this type"))
		return
	case len(l.questions) >= maxQuestions:
		l.pushAnswer(id, nil, errors.ResourceExhausted.New("the client answers too many questions at once"))
		return
	case l.questions[id] != nil:
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	l.questions[id] = cancel
	l.c.running.Go(func() {
		payload, err := answer(ctx, f.Payload)
		if errors.CodeOf(err) == errors.Internal {
			// It counts as open until there is room: a server may ask without end.
			if !l.c.inbox.put(l.ctx, delivery{func(context.Context) { l.c.opts.OnError(f.Type, err) }, len(err.Error())}) {
				l.c.opts.Logger.Warn("wskit client: a question failed", "type", f.Type, "error", err)
			}
		}
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		if ctx.Err() == nil {
			l.pushAnswer(id, payload, err)
		}
		cancel()
		delete(l.questions, id)
	})
}

// pushAnswer is called with Client.mu held.
func (l *link) pushAnswer(id string, payload jsontext.Value, err error) {
	o := outgoing{Type: typeAnswer, Meta: outgoingMeta{CorrelationID: id}, Payload: payload}
	if e := errors.From(err); e != nil {
		o.Error = &answerError{e.Code, e.Message}
	}
	l.push(o)
}

// withdrawn ends the context of a question that the server does not wait for any longer.
func (l *link) withdrawn(id string) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if cancel := l.questions[id]; cancel != nil {
		cancel()
	}
}
