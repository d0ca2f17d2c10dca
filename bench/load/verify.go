package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Verify exchanges one request and reads its reply in full, so that no server is
// measured for work it does not do.
func Verify(ctx context.Context, target Target) error {
	s, err := Open(ctx, target, 1)
	if err != nil {
		return err
	}
	defer s.Close()
	v := &verifyRun{}
	if err := s.drive(ctx, v); err != nil {
		return err
	}
	text := requestText
	if target.Deflate {
		text = longText
		if !v.deflated {
			return errors.New("load: the reply is not compressed")
		}
	}
	return checkReply(v.reply, 0, text)
}

// checkReply says what is wrong with the reply to request number.
func checkReply(payload []byte, number int, text string) error {
	var reply struct {
		Type    string
		Meta    struct{ CorrelationID string }
		Payload struct{ Room, Text string }
	}
	if err := json.Unmarshal(payload, &reply); err != nil {
		return fmt.Errorf("load: the reply %.200q: %w", payload, err)
	}
	if reply.Type != "chat.echoed" || reply.Meta.CorrelationID != correlationID(number) ||
		reply.Payload.Room != requestRoom || reply.Payload.Text != text {
		return fmt.Errorf("load: the reply does not echo the request: %.300q", payload)
	}
	return nil
}

type verifyRun struct {
	reply    []byte
	deflated bool
}

func (v *verifyRun) start(s *Swarm) error {
	return s.conns[0].send(s.requests(1).run(0, 1))
}

func (v *verifyRun) received(_ *conn, f frame) error {
	if s := uint64(len(f.payload)); s < f.size {
		return fmt.Errorf("load: only %d of the %d bytes of a reply are known", s, f.size)
	}
	if !f.deflated {
		v.reply = bytes.Clone(f.payload)
		return nil
	}
	reply, err := inflate(f.payload)
	v.reply, v.deflated = reply, true
	return err
}

func (v *verifyRun) drained(*conn) error { return nil }
func (v *verifyRun) done(time.Time) bool { return v.reply != nil }
func (v *verifyRun) idle() bool          { return v.reply != nil }
