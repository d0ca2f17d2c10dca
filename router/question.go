package router

import (
	"bytes"
	"cmp"
	"context"
	"reflect"
	"strconv"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/frame"
)

// Question is a message that the server sends to a client and that the client answers. Q is the
// Go type of its payload, A that of the answer's. [DeclareQuestion] makes it. Its methods may be
// called from any goroutine.
type Question[Q, A any] struct{ d *declared }

// QuestionOptions configure a question.
type QuestionOptions struct {
	// Timeout is how long the client has to answer. The context of Ask may end it sooner.
	// Default: 30 s. Negative: no limit.
	Timeout time.Duration
	// Doc describes the question in one line, for Router.Routes.
	//
	// Default: none.
	Doc string
}

// DeclareQuestion declares a question that the server asks clients, and the types of its payload
// and of the answer:
//
//	confirm := router.DeclareQuestion[Confirm, Confirmed](r, "confirm")
//	…
//	answer, err := confirm.Ask(c, c.Conn(), Confirm{Text: "Delete 3 files?"})
//
// Router.Routes lists it. The answer is decoded and validated like the payload of a message, see
// [On]. r is the router or a group, whose prefix is put before the type, and whose Strict holds
// for answers.
//
// DeclareQuestion panics if an event or a question of this type is declared already, if the type
// is reserved or does not have 1 to 128 bytes, if Q can never be encoded as JSON or A never be
// decoded, if opts has more than one element, and once the router has served a connection.
func DeclareQuestion[Q, A any](r Registrar, typ string, opts ...QuestionOptions) Question[Q, A] {
	d := newDeclared(r, typ, reflect.TypeFor[Q]())
	o := given.Must("router", "the question "+strconv.Quote(d.typ), opts)
	route := RouteOptions{}
	route.inherit(d.group)
	answer := codec.Decoded(reflect.TypeFor[A](), "the answer", d.typ, route.Strict)
	d.answerOf, d.answer = reflect.TypeFor[A](), &answer
	d.timeout, d.doc = max(0, cmp.Or(o.Timeout, 30*time.Second)), o.Doc
	d.register()
	return Question[Q, A]{d}
}

// Ask sends the question to a client and waits for the answer.
//
// While a handler asks its own client, pass its [Context], or a context made from it: then the
// connection is read until the answer has come, whatever the client sends before it. Messages
// that find no room until then (Limits.MaxInFlight, MaxPending) are refused with the kind
// in_flight, events as well, and do not hold back reading. A handler that waits for the answer of
// another connection, whose handlers wait for this one, waits until the time is over.
//
// The error has the code
//
//   - DEADLINE_EXCEEDED if the client does not answer in time, and CANCELLED if ctx is cancelled.
//     The client gets $ws:abort with the id of the question, and an answer that comes later is
//     ignored.
//   - UNAVAILABLE ([ErrClosed]) as soon as the connection is closed by either side
//   - RESOURCE_EXHAUSTED if Limits.MaxQuestions are open
//   - INVALID_ARGUMENT if the answer does not decode or validate. The client gets an ERROR.
//   - that of the client, if it answers with an error: at most 64 capitals, digits and
//     underscores, else UNKNOWN. INTERNAL is for faults of the server and becomes UNKNOWN, too.
//     The message has at most 1,024 bytes and is the client's: do not rely on it.
//
// Ask must not be called by OnOpen, because no message is read before that has returned; start a
// goroutine for it. It reaches connections of this process only; [Question.AskFirst] reaches those of all.
func (q Question[Q, A]) Ask(ctx context.Context, c *Conn, question Q) (A, error) {
	var answer, none A
	payload, err := c.ask(ctx, q.d, question)
	if err == nil {
		err = c.decodeAnswer(q.d, &answer, payload)
	}
	if err != nil {
		return none, err
	}
	return answer, nil
}

func (c *Conn) ask(ctx context.Context, d *declared, question any) (payload []byte, err error) {
	if c.router != d.group.router {
		return nil, errors.Internal.Errorf("router: the question %q is declared at %s with another router than that of the connection", d.typ, d.place)
	}
	if ctx.Err() != nil {
		return nil, errors.From(ctx.Err())
	}
	if err := c.router.checkDeclared(d, question); err != nil {
		return nil, err
	}
	encoded, err := d.encode(question)
	if err != nil {
		return nil, err
	}
	return c.askEncoded(ctx, d, encoded)
}

// encode is the payload of a question; nil: it has none.
func (d *declared) encode(question any) ([]byte, error) {
	if d.shape.Empty {
		return nil, nil
	}
	var b bytes.Buffer
	err := codec.AppendPayload(&b, question)
	return bytes.TrimPrefix(b.Bytes(), codec.PayloadKey), err
}

// askEncoded is ask with a payload as JSON; nil: none.
func (c *Conn) askEncoded(ctx context.Context, d *declared, question []byte) (payload []byte, err error) {
	qs := c.asked()
	id, answered, err := c.openQuestion(qs)
	if err != nil {
		return nil, err
	}
	if k, ok := ctx.Value(selfKey{}).(*Context); ok && k.conn == c {
		c.turn.NeedReader(1)
		defer c.turn.NeedReader(-1)
	}
	if err := c.sendQuestion(d, id, question); err != nil {
		qs.Take(id)
		return nil, err
	}
	var late <-chan time.Time
	if d.timeout > 0 {
		timer := time.NewTimer(d.timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case a := <-answered:
		return c.answered(a)
	case <-late:
		err = errNoAnswer
	case <-ctx.Done():
		err = errors.From(ctx.Err())
	case <-qs.Ended():
		err = ErrClosed
	}
	if qs.Take(id) == nil { // it was answered at the same moment
		return c.answered(<-answered)
	}
	if err != ErrClosed {
		c.withdraw(id)
	}
	return nil, err
}

// answered counts an error of the client's; what else it answers has to be decoded first.
func (c *Conn) answered(a answer) (payload []byte, err error) {
	if a.err != nil {
		c.countAnswer(nil)
	}
	return a.payload, a.err
}

var errNoAnswer = errors.DeadlineExceeded.New("the client has not answered in time")

func (c *Conn) sendQuestion(d *declared, id string, question []byte) error {
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":`)
	b.Text(d.typ)
	appendQuestionID(b, id)
	if question != nil {
		b.Write(codec.PayloadKey)
		b.Write(question)
	}
	b.WriteByte('}')
	return c.sendNow(b)
}

// withdraw has the client know that an answer is not waited for any more.
func (c *Conn) withdraw(id string) {
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeAbort + `"`)
	appendQuestionID(b, id)
	b.WriteByte('}')
	_ = c.sendNow(b)
}

func appendQuestionID(b *frame.Buffer, id string) {
	b.WriteString(`,"meta":{"correlationId":`)
	b.Text(id)
	b.WriteByte('}')
}

// decodeAnswer fills answer, a pointer. An answer that is not valid is an error for both sides.
func (c *Conn) decodeAnswer(d *declared, answer any, payload []byte) (err error) {
	defer func() {
		if v := recover(); v != nil { // of a type that decodes itself
			err = c.panicked(typeAnswer, v)
		}
		c.countAnswer(err)
		if err != nil {
			c.refused(RefusedPayload, typeAnswer, err)
			c.refuse(typeAnswer, nil, err)
			c.stream.Out.Flush()
			err = errors.InvalidArgument.Wrap(err, "the answer of the client is not valid").WithDetails(errors.From(err).Details)
		}
	}()
	return d.answer.Decode(answer, payload)
}
