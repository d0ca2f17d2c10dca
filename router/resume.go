package router

import (
	"cmp"
	"context"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
)

// resumeTimeout is the time for a $ws:resume.
const resumeTimeout = time.Minute

var errNoResume = errors.Unimplemented.New("no topic of this server has a history")

// resumption is the payload of $ws:resume.
type resumption struct {
	Topics []struct {
		Ticket string `json:"ticket"`
		Pos    string `json:"pos"`
	} `json:"topics"`
}

// resumedTopics is the answer.
type resumedTopics struct {
	Topics []resumedTopic `json:"topics"`
}

type resumedTopic struct {
	Topic    string `json:"topic,omitzero"`
	Resumed  bool   `json:"resumed"`
	Replayed int    `json:"replayed,omitzero"`
	Joined   bool   `json:"joined,omitzero"`
	Pos      string `json:"pos,omitzero"`
	Ticket   string `json:"ticket,omitzero"`
	Reason   string `json:"reason,omitzero"`
}

// Reasons of topics that are not resumed, besides those of the log.
const (
	reasonDenied      = "denied"
	reasonUnavailable = "unavailable"
)

// resumeRoute is the route of $ws:resume.
func (r *Router) resumeRoute() *route {
	rt := protocolRequest(r, typeResume, typeResumed, resumeTimeout, resume)
	rt.paced = true
	return rt
}

// resume resumes topics, one after the other. It is the handler of $ws:resume, and begins in a turn of the fairness
// queue.
func resume(c *Context, q resumption) (answer resumedTopics, err error) {
	conn := c.conn
	most := conn.router.opts.Limits.MaxTopics
	if n := len(q.Topics); n == 0 || n > most {
		return answer, errors.InvalidArgument.Errorf("payload.topics must have 1 to %d entries", most)
	}
	if !conn.resuming.CompareAndSwap(false, true) {
		return answer, errOneAtATime()
	}
	defer conn.resuming.Store(false)
	ready := conn.router.readyToResume(c)
	for i, t := range q.Topics {
		if i > 0 {
			conn.router.fair.Await()
		}
		pos, err := pubsub.ParsePosition(t.Pos)
		if err != nil {
			return answer, errors.InvalidArgument.New("payload.topics has a pos that no server has sent")
		}
		done, err := resumedTopic{Reason: reasonUnavailable}, c.Err()
		if ready {
			done, err = c.resume(t.Ticket, pos)
		}
		if err != nil {
			return answer, err
		}
		conn.router.stats.resumes.Add(cmp.Or(done.Reason, resumeOK))
		answer.Topics = append(answer.Topics, done)
	}
	return answer, nil
}

// readyToResume reports whether tickets can be checked: their key is known, and what was revoked before. What is
// revoked from then on ends the memberships that begin.
func (r *Router) readyToResume(ctx context.Context) bool {
	return r.tickets.ready(ctx) == nil && (r.cluster == nil || r.rights.CatchUp(ctx) == nil)
}

// resume resumes a topic. An error ends the connection's resume as a whole.
func (c *Context) resume(text string, from pubsub.Position) (done resumedTopic, err error) {
	conn, r := c.conn, c.conn.router
	t := r.tickets.check(text, conn.Identity())
	if t.topic == "" || r.historyOf(t.topic) == nil {
		return resumedTopic{Reason: reasonDenied}, nil
	}
	done.Topic = t.topic
	if done.Reason = conn.refusal(c, r.opts.Resume.Allow, typeResume, t.topic); done.Reason != "" {
		return done, c.Err()
	}
	replayed, at, err := conn.peer.Resume(c, t.topic, from, hub.Terms{Until: t.until, Revoked: conn.revokedSince(t.topic, t.mark)})
	done.Replayed, done.Resumed = replayed, err == nil
	if reset, ok := errors.AsType[*hub.Reset](err); ok {
		done.Reason, err = string(reset.Reason), nil
		if reset.Reason == hub.LossJoined {
			return done, nil
		}
	}
	switch {
	case err == nil:
		m := conn.peer.Member(t.topic)
		if m == nil {
			done.Resumed, done.Reason = false, reasonDenied
			return done, nil
		}
		var now []byte
		var grace time.Duration
		if now, grace, done.Joined = m.Joined(); done.Joined { // OnOpen has joined it, perhaps with other data
			t.joined, t.grace = now, grace
		}
		t.until = m.Until()
		if t.joined != nil && !done.Joined {
			done.Joined = conn.joinWith(c, t.topic, t.joined, t.grace) == nil
		}
		done.Pos, done.Ticket = at.String(), r.tickets.issue(conn, t)
	case c.Err() != nil || conn.ended():
		return done, c.Err()
	case errors.CodeOf(err) == errors.ResourceExhausted, err == hub.ErrRevoked: // the former: too many topics
		done.Reason = reasonDenied
	default:
		done.Reason = reasonUnavailable
	}
	return done, nil
}
