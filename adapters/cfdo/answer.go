package cfdo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/wskit/wskit/limit"
)

// errAnswer is an answer that makes no sense. It must never pass for a decision.
var errAnswer = fmt.Errorf("%w: its answer makes no sense", errFailed)

// The Worker answers a decision as nine numbers and the state that it left.
const (
	wireAllowed = iota
	wireImpossible
	wireLimit
	wireRemaining
	wireRetryAfter
	wireWait
	wireResetAfter
	wireAt
	wirePart
	wireState
)

// parseAnswers splits the body of an answer to so many calls.
func parseAnswers(text []byte, calls int) ([]json.RawMessage, error) {
	var wire struct {
		Answers []json.RawMessage `json:"answers"`
	}
	if err := json.Unmarshal(text, &wire); err != nil || len(wire.Answers) != calls {
		return nil, errAnswer
	}
	return wire.Answers, nil
}

// read fills in the answers of a call, and returns those of the calls after it.
func (c *call) read(answers []json.RawMessage) (rest []json.RawMessage, err error) {
	if c.op == opAll {
		return answers[1:], c.readAll(answers[0])
	}
	rest = answers[len(c.asks):]
	if c.op >= opAcquire {
		for i := range c.leases {
			err = errors.Join(err, c.leases[i].read(c.op, answers[i]))
		}
		return rest, err
	}
	for i := range c.asks {
		if code := failure(answers[i]); code != nil {
			err = errors.Join(err, code)
		} else if c.op == opTake || c.op == opPeek {
			err = errors.Join(err, c.asks[i].read(answers[i], c.op == opTake))
		} else if !bytes.Equal(answers[i], []byte("[]")) {
			err = errAnswer
		}
	}
	return rest, err
}

func (c *call) readAll(answer json.RawMessage) error {
	if err := failure(answer); err != nil {
		return err
	}
	var parts []json.RawMessage
	if json.Unmarshal(answer, &parts) != nil || len(parts) != 1+len(c.asks) {
		return errAnswer
	}
	bound, err := strconv.Atoi(string(parts[0]))
	if err != nil || bound < 0 || bound >= len(c.asks) {
		return errAnswer
	}
	c.bound = bound
	for i := range c.asks {
		if err := c.asks[i].read(parts[1+i], true); err != nil {
			return err
		}
	}
	return nil
}

// failure is what the Worker says of a call that has no answer.
func failure(answer json.RawMessage) error {
	if bytes.HasPrefix(answer, []byte(`"invalid: `)) {
		var text string
		if json.Unmarshal(answer, &text) != nil {
			return errAnswer
		}
		return fmt.Errorf("%w (%s)", ErrBadRequest, text[:min(len(text), 200)])
	}
	switch string(answer) {
	case `"overloaded"`:
		return ErrOverloaded
	case `"failed"`:
		return fmt.Errorf("%w: an object did", errFailed)
	case `"apart"`:
		return errApart
	}
	return nil
}

// read fills in a decision and the state that it left.
func (a *ask) read(answer json.RawMessage, charge bool) (err error) {
	if a.words, err = appendNumbers(a.words[:0], answer); err != nil {
		return err
	}
	n := a.words
	parts := a.plan.Compiled().Parts
	if len(n) < wireState || n[wireAllowed] > 1 || n[wireImpossible] > 1 || n[wirePart] >= int64(len(parts)) {
		return errAnswer
	}
	a.answer = limit.Decision{
		Allowed:    n[wireAllowed] == 1,
		Impossible: n[wireImpossible] == 1,
		Limit:      n[wireLimit],
		Remaining:  n[wireRemaining],
		RetryAfter: micros(n[wireRetryAfter]),
		Wait:       micros(n[wireWait]),
		ResetAfter: micros(n[wireResetAfter]),
		At:         n[wireAt],
		Policy:     parts[n[wirePart]].Name,
	}
	if charge && a.answer.Allowed {
		a.answer.Charged = a.cost
	}
	a.words = append(n[:0], n[wireState:]...)
	a.whole = len(a.words) > 0 || !a.answer.Allowed // nothing was ever used of a key without state
	return nil
}

// maxNumber is the largest that the wire has: see package limit.
const maxNumber = 1<<53 - 1

// appendNumbers reads a list of whole numbers.
func appendNumbers(dst []int64, text []byte) ([]int64, error) {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return dst, errAnswer
	}
	for one := range bytes.SplitSeq(text[1:len(text)-1], []byte{','}) {
		n, err := strconv.ParseInt(string(one), 10, 64)
		if err != nil || n < 0 || n > maxNumber {
			return dst, errAnswer
		}
		dst = append(dst, n)
	}
	return dst, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
