package router

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/pending"
)

type answer struct {
	payload []byte
	err     error // what the client answered in place of a payload
}

// asked returns the connection's questions. Most connections have none.
func (c *Conn) asked() *pending.Table[answer] {
	if qs := c.questions.Load(); qs != nil {
		return qs
	}
	c.questions.CompareAndSwap(nil, pending.New[answer]())
	qs := c.questions.Load()
	if c.life.State() >= life.Closing { // perhaps before end could find them
		qs.End()
	}
	return qs
}

// openQuestion opens one, if fewer than Limits.MaxQuestions are open.
func (c *Conn) openQuestion(qs *pending.Table[answer]) (id string, answered <-chan answer, err error) {
	limit := c.router.opts.Limits.MaxQuestions
	id, answered, outcome := qs.Add(limit)
	switch outcome {
	case pending.Ended:
		return "", nil, ErrClosed
	case pending.TooMany:
		return "", nil, errors.ResourceExhausted.Errorf("a client may be asked at most %d questions at once", limit).WithDetails(
			map[string]any{"kind": "questions", "limit": limit})
	}
	return id, answered, nil
}

// to moves the connection on to a state, see [life.Life.To].
func (c *Conn) to(state life.State) bool {
	entered := c.life.To(state)
	if entered && state >= life.Closing {
		if qs := c.questions.Load(); qs != nil {
			qs.End()
		}
	}
	return entered
}

var errNoQuestion = errors.InvalidArgument.New("answer has no meta.correlationId")

// takeAnswer hands an answer of the client to the goroutine that waits for it. One to a question
// that is not open (any more) is counted: it may have crossed $ws:abort.
func (c *Conn) takeAnswer(_ *scratch, env envelope.Envelope, frame []byte) (RefusedKind, error) {
	if env.CorrelationID == nil {
		return RefusedEnvelope, errNoQuestion
	}
	var open chan<- answer
	if qs := c.questions.Load(); qs != nil {
		id, _ := jsontext.AppendUnquote(nil, env.CorrelationID) // it has been read as a string
		open = qs.Take(string(id))
	}
	if open == nil {
		c.router.stats.answersIgnored.Add(1)
		c.countAnswer(nil)
		return "", nil
	}
	c.message.Store(int64(c.stream.Heard()))
	var a answer
	if env.Payload == nil || string(env.Payload) == "null" {
		a.err = clientError(frame)
	} else {
		a.payload = append(a.payload, env.Payload...) // which is read over
	}
	open <- a
	return "", nil
}

// countAnswer counts an answer when it is known whether it is refused: after it has been decoded.
func (c *Conn) countAnswer(err error) { c.router.count(c.serving.routes[typeAnswer], err) }

// What is taken of a client's error.
const (
	maxErrorCode    = 64
	maxErrorMessage = 1 << 10
	unknown         = errors.Code("UNKNOWN")
)

// clientError returns the error that a client has answered with, or nil.
func clientError(frame []byte) error {
	var f struct {
		Error *struct {
			Code    errors.Code `json:"code"`
			Message string      `json:"message"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(frame, &f); {
	case err != nil:
		return unknown.Wrap(err, "the client has answered with an error that does not decode")
	case f.Error == nil:
		return nil
	}
	e := &errors.Error{Code: f.Error.Code, Message: truncated(f.Error.Message, maxErrorMessage)}
	if !mayHave(e.Code) {
		e.Code = unknown
	}
	return e
}

// mayHave reports whether a client's error may have a code. INTERNAL is a fault of the server.
func mayHave(code errors.Code) bool {
	other := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' }
	return code != "" && code != "OK" && code != errors.Internal && len(code) <= maxErrorCode && !strings.ContainsFunc(string(code), other)
}
