package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// What the sender has sent is in the backend, for the process that sends after it:
//
//   - The states: a lease for each fact that was last said to be true. Leases are a set here: they last for keep, and are
//     renewed.
//   - The cell: a log in which each message replaces the one before. It has how far the events of Send were sent, the
//     largest seq, and the facts of the latest request, whose outcome is not known. A message is appended before each
//     request. So a sender finds out that another process has become the sender: then the log has messages in between.

// keep is how long the states of a webhook are kept when no process runs.
const keep = 30 * 24 * time.Hour

// cellHistory has some messages more than the last, so that those in between can be read.
var cellHistory = pubsub.History{Messages: 16, Bytes: 16 << 20, Age: keep}

// cell is a message of the cell.
type cell struct {
	At    string `json:"at"` // the position of the last event of Send that was answered
	Seq   int64  `json:"seq"`
	Facts []fact `json:"facts"`           // that are being sent
	Reset bool   `json:"reset,omitempty"` // and so is reset
	By    string `json:"by"`
}

// errTaken ends the work of a sender that has been replaced.
var errTaken = errors.Unavailable.New("webhook: another process sends")

// state is what the sender knows of what was sent.
type state struct {
	w    *Webhook
	at   pubsub.Position // of the last message of the cell
	sent pubsub.Position // the last event of Send that was answered
	seq  int64
	said map[fact]bool // what was last said, of facts that are or may be true
	// doubt are facts of which an event is being sent, or may have been.
	doubt map[fact]bool
	reset bool // is to be sent
	rests bool // the cell says that nothing is being sent
}

// load reads what earlier senders have left.
func load(ctx context.Context, w *Webhook) (*state, error) {
	s := &state{w: w, said: make(map[fact]bool), doubt: make(map[fact]bool)}
	page, err := s.read(ctx, pubsub.Position{})
	if err != nil {
		return nil, err
	}
	s.at, s.reset = page.Head, len(page.Messages) == 0
	if !s.reset {
		if err := s.take(page.Messages[len(page.Messages)-1]); err != nil {
			return nil, err
		}
	}
	for i := range shards {
		_, ids, err := w.shared.Limits.Held(ctx, s.list(i), 1<<20)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if f, ok := factOf([]byte(id)); ok {
				s.said[f] = true
			}
		}
	}
	return s, nil
}

func (s *state) read(ctx context.Context, from pubsub.Position) (pubsub.Page, error) {
	o := pubsub.ReadOptions{From: from, Messages: cellHistory.Messages, Bytes: cellHistory.Bytes}
	return s.w.shared.Log.Read(ctx, s.w.names.cell, cellHistory, o)
}

// take takes the last message of the cell.
func (s *state) take(m pubsub.Message) (err error) {
	var c cell
	if err := json.Unmarshal(m.Frame, &c); err != nil {
		return fmt.Errorf("webhook: what an earlier sender has left cannot be read: %w", err)
	}
	s.seq, s.reset = c.Seq, c.Reset
	for _, f := range c.Facts {
		s.doubt[f] = true
	}
	if c.At != "" {
		s.sent, err = pubsub.ParsePosition(c.At)
	}
	return err
}

// list is the name of a list of states.
func (s *state) list(shard int) string { return s.w.names.states + strconv.Itoa(shard) }

func (s *state) leases(facts []fact) (list []limit.Lease) {
	for _, f := range facts {
		list = append(list, limit.Lease{Key: s.list(f.shard()), ID: f.key()})
	}
	return list
}

// begin notes what is about to be sent, and takes count numbers for it: the first is returned. It fails with errTaken if
// another process has become the sender.
func (s *state) begin(ctx context.Context, facts []fact, count int) (first int64, err error) {
	for _, f := range facts {
		s.doubt[f] = true
	}
	first = max(s.seq+1, time.Now().UnixMicro())
	s.seq = first + int64(count) - 1
	c := cell{At: position(s.sent), Seq: s.seq, Facts: slices.Collect(maps.Keys(s.doubt)), Reset: s.reset, By: s.w.self}
	frame, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	at, err := s.w.shared.Log.Append(ctx, pubsub.Message{Topic: s.w.names.cell, Frame: frame}, cellHistory, "")
	if err != nil {
		return 0, err
	}
	before := s.at
	s.at, s.rests = at, count == 0
	switch {
	case at.Epoch == before.Epoch && at.Offset == before.Offset+1:
		return first, nil
	case at.Epoch == before.Epoch && at.Offset > before.Offset:
		return first, s.between(ctx, before)
	default: // the backend has lost data
		return first, s.renew(ctx)
	}
}

func position(p pubsub.Position) string {
	if p == (pubsub.Position{}) {
		return ""
	}
	return p.String()
}

// between looks at what was appended behind a message of this sender: by itself, in a call that seemed to fail, or by
// another one.
func (s *state) between(ctx context.Context, from pubsub.Position) error {
	page, err := s.read(ctx, from)
	if err != nil {
		return err
	}
	for _, m := range page.Messages {
		var c cell
		if err := json.Unmarshal(m.Frame, &c); err != nil || c.By != s.w.self {
			return errTaken
		}
	}
	if page.Lost != pubsub.LossNone {
		return errTaken
	}
	return nil
}

// done notes that what begin has noted was answered, or dropped. sent is the last event of Send in it.
func (s *state) done(ctx context.Context, facts []fact, is map[fact]bool, sent pubsub.Position) error {
	began, ended := slices.Clone(facts), slices.Clone(facts)
	began = slices.DeleteFunc(began, func(f fact) bool { return !is[f] })
	ended = slices.DeleteFunc(ended, func(f fact) bool { return is[f] })
	leases := s.w.shared.Limits
	if len(began) > 0 {
		if err := leases.Renew(ctx, s.leases(began), keep); err != nil {
			return err
		}
	}
	if len(ended) > 0 {
		if err := leases.Release(ctx, s.leases(ended)); err != nil {
			return err
		}
	}
	for _, f := range facts {
		delete(s.doubt, f)
		delete(s.said, f)
		if is[f] {
			s.said[f] = true
		}
	}
	if sent != (pubsub.Position{}) {
		s.sent = sent
	}
	s.reset = false
	return nil
}

// rest notes that nothing is being sent.
func (s *state) rest(ctx context.Context) error {
	if s.rests {
		return nil
	}
	_, err := s.begin(ctx, nil, 0)
	return err
}

// renew writes all states again: they last for a time, and the backend may have lost some.
func (s *state) renew(ctx context.Context) error {
	var all []fact
	for f := range s.said {
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil
	}
	return s.w.shared.Limits.Renew(ctx, s.leases(all), keep)
}
