package router

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
)

// Redact takes back a message of a topic with history. pos is its position, as clients get it in meta.pos. When Redact
// has returned nil, the history has $ws:redacted in its place, and each client that has got the message gets
// $ws:redacted as the next message of the topic, at once or when it comes back. Its payload is
//
//	{"topic":"room:a","pos":"q84w…","replacement":{"deletedBy":"mod"}}
//
// with the position of the message, and the replacement, encoded as in [Conn.Send], if that is not nil. Positions stay
// as they are, so that a client resumes across it without a gap, and an ID of PublishOptions is still known. While
// Redact runs, a client that resumes may get the message, and then $ws:redacted. Doing it again does no harm.
//
// The error is INVALID_ARGUMENT for a name, a position or a replacement that makes no sense, NOT_FOUND where the
// message is not kept any more, and UNAVAILABLE when the broker fails: then do it again. Backend.Broker has to be a
// [pubsub.Replacer].
func (r *Router) Redact(ctx context.Context, topic, pos string, replacement any) error {
	h, at, err := r.historyFrom(topic, pos)
	switch {
	case err != nil:
		return err
	case at.Offset == 0:
		return errNoPosition
	}
	log, ok := h.Log.(pubsub.Replacer)
	if !ok {
		return errors.Internal.Errorf("router: messages cannot be redacted, since Backend.Broker is %T and not a pubsub.Replacer; set it to redis.NewBroker, or leave it out for one process", h.Log)
	}
	var shown []byte
	if replacement != nil {
		if shown, err = json.Marshal(replacement); err != nil {
			return errors.InvalidArgument.Wrap(err, "the replacement cannot be encoded")
		}
	}
	event := hub.RedactedEvent(topic, pos, shown)
	m := pubsub.Message{Topic: topic, Frame: hub.Appendable(topic, event)}
	if err := r.hub.ErrTooLarge(len(m.Frame) + hub.PositionSize); err != nil {
		return errors.InvalidArgument.Wrap(err, "the replacement is too large")
	}
	ctx = lasting(ctx)
	replaced, err := log.Replace(ctx, topic, at, m.Frame)
	if err == nil && replaced {
		_, err = log.Append(ctx, m, h.Kept, "")
	}
	switch {
	case err != nil:
		return errors.Unavailable.Wrap(err, "the message may not be redacted; do it again")
	case !replaced:
		return errors.NotFound.New("the message is not kept any more")
	}
	return nil
}
