package router

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/logcache"
)

// HistoryQuery says which messages of a topic are read. The zero value reads the oldest ones that are
// kept.
type HistoryQuery struct {
	// From is a position, as clients get it in meta.pos: the messages behind it are read, or with
	// Backwards those before it. Empty means the beginning, and with Backwards the end.
	From string
	// Backwards reads the latest messages before From. They are in the order of the log in any case.
	Backwards bool
	// Limit is how many messages are read at most. Default: 50. At most 1,000; fewer are read if
	// they have more than 1 MiB.
	Limit int
}

// HistoryPage is what [Router.ReadHistory] returns. It can be the reply to a request.
type HistoryPage struct {
	// Messages are in the order of the topic, the oldest first.
	Messages []HistoryMessage `json:"messages"`
	// More says that there are more messages in the direction that was read.
	More bool `json:"more"`
	// Head is the position of the last message of the topic. A client that then subscribes from it
	// ([Context.SubscribeFrom]) misses nothing.
	Head string `json:"head"`
	// Lost is why nothing could be read from From, or empty: epoch, trimmed or rewound, as in
	// $ws:reset.
	Lost string `json:"lost,omitzero"`
}

// HistoryMessage is a message in the history of a topic.
type HistoryMessage struct {
	// Type is the type with which it was published.
	Type string `json:"type"`
	// Payload is the payload as JSON; empty if the message has none.
	Payload jsontext.Value `json:"payload,omitzero"`
	// Pos is the position of the message, as in meta.pos and for HistoryQuery.From.
	Pos string `json:"pos"`
}

const (
	historyLimit    = 50
	maxHistoryLimit = 1000
	maxHistoryBytes = 1 << 20
)

var errNoPosition = errors.InvalidArgument.New("the position is none that a server has sent")

// ReadHistory reads messages of a topic with history, for clients that join later or scroll back.
// The handler decides whether a client may read the topic. The error is INVALID_ARGUMENT for a name
// of a topic, a position or a limit that makes no sense, and UNAVAILABLE when the broker fails.
func (r *Router) ReadHistory(ctx context.Context, topic string, q HistoryQuery) (page HistoryPage, err error) {
	h, from, err := r.historyFrom(topic, q.From)
	if err != nil {
		return page, err
	}
	if q.Limit < 0 || q.Limit > maxHistoryLimit {
		return page, errors.InvalidArgument.Errorf("the limit is %d; it must be from 1 to %d (0 for %d)", q.Limit, maxHistoryLimit, historyLimit)
	}
	q.Limit = cmp.Or(q.Limit, historyLimit)
	read, err := r.hub.ReadLog(lasting(ctx), topic, h, pubsub.ReadOptions{From: from, Backwards: q.Backwards, Messages: q.Limit, Bytes: maxHistoryBytes})
	if err != nil {
		return page, errors.Unavailable.Wrap(err, "the history cannot be read")
	}
	page = HistoryPage{Messages: make([]HistoryMessage, 0, len(read.Messages)), More: read.More, Head: read.Head.String(), Lost: string(read.Lost)}
	var peeker envelope.Peeker
	prefix := hub.TopicPrefix(topic)
	for i := range read.Messages {
		m := &read.Messages[i]
		message, err := r.hub.Positioned(nil, &peeker, prefix, m)
		if err != nil {
			r.hub.Refuse(topic, err)
			continue
		}
		e, _ := peeker.Peek(message.Payload) // it has been read as valid
		page.Messages = append(page.Messages, HistoryMessage{
			Type: string(e.Type), Payload: append(jsontext.Value(nil), e.Payload...), Pos: m.Position.String(),
		})
	}
	return page, nil
}

// historyFrom returns the history of a topic, and a position that may be empty.
func (r *Router) historyFrom(topic, pos string) (h *hub.History, from pubsub.Position, err error) {
	if err := hub.CheckTopic(topic); err != nil {
		return nil, from, err
	}
	if h = r.historyOf(topic); h == nil {
		return nil, from, hub.ErrNoHistory
	}
	if pos != "" {
		if from, err = pubsub.ParsePosition(pos); err != nil {
			return nil, from, errNoPosition
		}
	}
	return h, from, nil
}

// SubscribeFrom makes the connection a member of a topic with history. See [Context.SubscribeFrom].
// ctx is for the call alone.
func (c *Conn) SubscribeFrom(ctx context.Context, topic, pos string, opts ...SubscribeOptions) error {
	r := c.router
	until, err := untilOf(opts)
	if err != nil {
		return err
	}
	h, from, err := r.historyFrom(topic, pos)
	if err != nil {
		return err
	}
	if pos == "" {
		if from, err = r.oldest(ctx, topic, h); err != nil {
			return errors.Unavailable.Wrap(err, "subscribing failed")
		}
	}
	if err := c.router.tickets.ready(ctx); err != nil {
		return err
	}
	err = c.peer.SubscribeFrom(ctx, topic, from, c.terms(ctx, topic, until))
	reset, ok := errors.AsType[*hub.Reset](err)
	if pos != "" && ok {
		r.stats.resumes.Add(string(reset.Reason))
	} else if pos != "" && err == nil {
		r.stats.resumes.Add(resumeOK)
	}
	switch {
	case ok && reset.Reason == hub.LossJoined:
		return errors.FailedPrecondition.New("the connection is a member of the topic already")
	case ok, err == nil:
		return nil
	case err == ErrClosed || err == hub.ErrRevoked || errors.CodeOf(err) == errors.ResourceExhausted:
		return err
	}
	return errors.Unavailable.Wrap(err, "subscribing failed")
}

// oldest returns the position before the oldest message that is kept.
func (r *Router) oldest(ctx context.Context, topic string, h *hub.History) (pubsub.Position, error) {
	page, err := r.hub.ReadLog(ctx, topic, h, pubsub.ReadOptions{Messages: 1, Bytes: 1})
	if err != nil || len(page.Messages) == 0 {
		return page.Head, err
	}
	return logcache.Before(&page.Messages[0]), nil
}

// SubscribeFrom is Subscribe for a topic with history, from a position on: the client gets
// $ws:subscribed, then what was published after the position, and then what is published from now
// on, without a gap between them. With an empty position it gets all that is kept. SubscribeFrom
// returns when at most half of Limits.MaxQueued still waits to be sent.
//
// If some of the messages after the position are not kept any more, the client gets $ws:reset with the reason,
// and then what is published from now on; that is no error. The errors are those of Subscribe, INVALID_ARGUMENT for the
// position, and FAILED_PRECONDITION where the connection is a member already.
func (c *Context) SubscribeFrom(topic, pos string, opts ...SubscribeOptions) error {
	return c.conn.SubscribeFrom(c, topic, pos, opts...)
}
