package routertest

import (
	"context"
	"strings"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
)

// Answer answers the questions of a type (router.DeclareQuestion) that the server has sent to the
// client or will send, each in a goroutine of its own. An error is sent in place of an answer,
// with its code and message as errors.From finds them. Questions without an Answer are like other
// frames: see [Client.ExpectAny].
func Answer[Q, A any](c *Client, typ string, answer func(Q) (A, error)) {
	reply := func(f Frame) {
		var q Q
		if f.Payload != nil {
			if err := json.Unmarshal(f.Payload, &q); err != nil {
				c.t.Errorf("routertest: the question %s does not decode into %T: %v: %s", typ, q, err, f.Payload)
			}
		}
		frame := map[string]any{"type": answerType, "meta": f.Meta}
		a, err := answer(q)
		if e := errors.From(err); e != nil {
			frame["error"] = map[string]any{"code": e.Code, "message": e.Message}
		} else {
			frame["payload"] = a
		}
		b, err := json.Marshal(frame)
		if err != nil {
			c.t.Errorf("routertest: the answer to %s does not encode: %v", typ, err)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
		defer cancel()
		_ = c.ws.Write(ctx, websocket.MessageText, b) // the connection may have ended
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil {
		c.answers = make(map[string]func(Frame))
	}
	c.answers[typ] = reply
	kept := c.inbox[:0]
	for _, f := range c.inbox {
		if f.Type == typ && f.isQuestion() {
			c.answering.Go(func() { reply(f) })
		} else {
			kept = append(kept, f)
		}
	}
	c.inbox = kept
}

const answerType = "$ws:answer"

// isQuestion reports whether the server waits for an answer. Its ids are none of the client's.
func (f Frame) isQuestion() bool { return strings.HasPrefix(f.Meta.CorrelationID, "$ws:") }
