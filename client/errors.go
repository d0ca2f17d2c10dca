package client

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// codeUnknownOutcome is not a code of the protocol: no server sends it.
const codeUnknownOutcome errors.Code = "UNKNOWN_OUTCOME"

var (
	// ErrUnknownOutcome is in the error of a message that was written to a connection, if the
	// connection or the context ended before the answer. The server may have handled it, wholly,
	// partly or not at all. With other errors, the server has refused the message or never got it.
	ErrUnknownOutcome = codeUnknownOutcome.New("the server may have handled the message")
	// ErrClosed is in the error of messages of a client that was closed.
	ErrClosed = errors.Cancelled.New("the client is closed")
	// ErrQueueFull is in the error of a message for which the queue has no room, see Options.MaxQueued.
	ErrQueueFull = errors.ResourceExhausted.New("too many messages wait to be sent")
)

// unknownOutcome is the error of a message that was written when its connection ended.
func unknownOutcome(cause error) error {
	return codeUnknownOutcome.Wrap(errors.Join(ErrUnknownOutcome, cause), "the connection ended before the answer")
}

// ended is the error of a message whose context has ended.
func ended(ctx context.Context, written bool) error {
	e := *errors.From(ctx.Err())
	if e.Message += ", and the message was not sent"; written {
		e.Message = string("the message was sent, and its answer did not come in time")
		e.NoRetry, e.Cause = true, errors.Join(ErrUnknownOutcome, ctx.Err())
	}
	return &e
}

// failure is the payload of ERROR, RPC_ERROR, and of a refused handshake.
type failure struct {
	Type         string         `json:"type"`
	Code         errors.Code    `json:"code"`
	Message      string         `json:"message"`
	Retryable    bool           `json:"retryable"`
	RetryAfterMs jsontext.Value `json:"retryAfterMs"`
	Details      jsontext.Value `json:"details"`
}

// readFailure reads an error of the server.
func readFailure(payload []byte) (typ string, e *errors.Error) {
	var f failure
	if err := json.Unmarshal(payload, &f); err != nil || f.Code == "" || f.Code == "OK" {
		return "", errors.Internal.Errorf("the server sent an error that is not valid: %.200s", payload)
	}
	e = &errors.Error{Code: f.Code, Message: f.Message, Retry: f.Retryable, NoRetry: !f.Retryable}
	e.RetryAfter, _ = advice(f.RetryAfterMs)
	if f.Details != nil {
		e.Details = f.Details
	}
	return f.Type, e
}

// maxAdvice is the longest time that a server may ask a client to wait, in milliseconds: a day.
const maxAdvice = 24 * 60 * 60 * 1000

// advice reads a retryAfterMs. What is no sensible time counts as not known, which is 0. null says that
// waiting does not help.
func advice(retryAfterMs jsontext.Value) (wait time.Duration, never bool) {
	if retryAfterMs.Kind() == 'n' {
		return 0, true
	}
	var ms int64
	if json.Unmarshal(retryAfterMs, &ms) != nil || ms < 0 || ms > maxAdvice {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, false
}

// contain is deferred by calls of handlers. A panic becomes an error.
func contain(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("client: a handler panicked: %v\n%s", v, debug.Stack())
	}
}

// decode decodes a payload; none stands for the zero value.
func decode[T any](typ string, payload []byte) (v T, err error) {
	if payload == nil {
		return v, nil
	}
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, fmt.Errorf("client: the payload of %s does not decode into %T: %w", typ, v, err)
	}
	return v, nil
}
