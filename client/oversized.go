package client

import (
	"bytes"
	"io"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// A message above Options.MaxMessage is skipped, and its request, topic or question gets an error. If the connection
// were closed, the message would come again on the next one, for ever.

// readMessage reads a message of the server. It returns the beginning of one that is too large, and skips the rest.
func (l *link) readMessage() (kind websocket.MessageType, data []byte, tooLarge bool, err error) {
	kind, r, err := l.ws.Reader(l.ctx)
	if err != nil {
		return kind, nil, false, err
	}
	data, err = io.ReadAll(io.LimitReader(r, int64(l.c.opts.MaxMessage)+1))
	if err != nil || len(data) <= l.c.opts.MaxMessage {
		return kind, data, false, err
	}
	_, err = io.Copy(io.Discard, r)
	return kind, data, true, err
}

// oversized tells what a message that is too large belongs to. beginning has its type and meta, which servers write
// before the payload.
func (l *link) oversized(beginning []byte) error {
	f := headOf(beginning)
	err := errors.ResourceExhausted.Errorf("a message of the server is larger than the %d bytes of Options.MaxMessage; set more, or have the server send less", l.c.opts.MaxMessage)
	err.NoRetry = true
	id := f.Meta.CorrelationID
	switch {
	case f.fromServer():
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		l.pushAnswer(id, nil, err)
		return nil
	case id != "" && f.Type != typeProgress:
		f.Type = typeRPCError
		f.Payload, _ = json.Marshal(failure{Code: err.Code, Message: err.Message, RetryAfterMs: jsontext.Value("null")})
		return l.answered(id, &f)
	case f.Meta.Topic != "" && f.Meta.Pos != "":
		return l.oversizedEvent(&f)
	}
	return l.reportError(f.Type, err)
}

// oversizedEvent is a gap of its topic, which goes on behind it.
func (l *link) oversizedEvent(f *frame) error {
	name, pos := f.Meta.Topic, f.Meta.Pos
	l.c.mu.Lock()
	again := l.c.comesAgain(name, pos)
	l.c.mu.Unlock()
	if again {
		return nil
	}
	if err := l.gap(name, reasonTooLarge); err != nil { // it comes again when the topic is resumed
		return err
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.moveTo(name, pos)
	return nil
}

// headOf reads the members of a frame that come before its payload.
func headOf(beginning []byte) (f frame) {
	d := jsontext.NewDecoder(bytes.NewReader(beginning))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return f
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return f
		}
		switch name.String() {
		case "type":
			err = json.UnmarshalDecode(d, &f.Type)
		case "meta":
			err = json.UnmarshalDecode(d, &f.Meta)
		default:
			return f
		}
		if err != nil {
			return frame{}
		}
	}
}
