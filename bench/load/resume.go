package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ResumePlan says what all connections of a swarm resume at the same moment.
type ResumePlan struct {
	Topic    string
	Ticket   string
	Position string
}

// ResumeResult is what the connections were sent.
type ResumeResult struct {
	Replayed int           // messages that they had missed, by the answers of the server
	Messages int           // of the topic, those that came live among them
	Half     time.Duration // until half of the connections were answered
	Elapsed  time.Duration
}

// Resume sends a $ws:resume on each connection and reads until all are answered. It fails if one
// is not resumed, or got fewer messages than the answer says.
func (s *Swarm) Resume(ctx context.Context, plan ResumePlan) (ResumeResult, error) {
	if plan.Topic == "" || plan.Ticket == "" || plan.Position == "" {
		return ResumeResult{}, errors.New("load: resuming needs a topic, its ticket and a position")
	}
	r := &resumeRun{
		request: appendMasked(nil, opText, fmt.Appendf(nil, `{"type":"$ws:resume","meta":{"correlationId":"r"},"payload":{"topics":[{"ticket":%q,"pos":%q}]}}`, plan.Ticket, plan.Position)),
		message: fmt.Appendf(nil, `{"meta":{"topic":%q,`, plan.Topic),
		got:     make(map[*conn]int, len(s.conns)), clients: len(s.conns), owed: len(s.conns), began: time.Now(),
	}
	if err := s.drive(ctx, r); err != nil {
		return ResumeResult{}, err
	}
	r.result.Elapsed = time.Since(r.began)
	return r.result, nil
}

type resumeRun struct {
	request []byte
	message []byte // how the messages of the topic begin
	began   time.Time
	got     map[*conn]int // messages of those that are not answered
	clients int
	owed    int // answers
	result  ResumeResult
}

var resumedMark = []byte(`"resumed":true,"replayed":`)

func (r *resumeRun) start(s *Swarm) error {
	for _, c := range s.conns {
		if err := c.send(r.request); err != nil {
			return err
		}
	}
	return nil
}

func (r *resumeRun) received(c *conn, f frame) error {
	if bytes.HasPrefix(f.payload, r.message) {
		r.result.Messages++
		r.got[c]++
		return nil
	}
	if !bytes.HasPrefix(f.payload, []byte(`{"type":"$ws:resumed"`)) {
		return fmt.Errorf("load: not an answer to $ws:resume: %.200q", f.payload)
	}
	_, rest, ok := bytes.Cut(f.payload, resumedMark)
	digits, _, _ := bytes.Cut(rest, []byte(","))
	replayed, err := strconv.Atoi(string(digits))
	if !ok || err != nil || r.got[c] < replayed {
		return fmt.Errorf("load: after %d messages: %.200q", r.got[c], f.payload)
	}
	r.result.Replayed += replayed
	if r.owed--; r.owed == r.clients/2 {
		r.result.Half = time.Since(r.began)
	}
	return nil
}

func (r *resumeRun) drained(*conn) error { return nil }
func (r *resumeRun) done(time.Time) bool { return r.owed == 0 }
func (r *resumeRun) idle() bool          { return r.owed == 0 }
