package router

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/limitfeed"
)

var errFollowedTypes = errors.InvalidArgument.Errorf("payload.types must be a list of at most %d message types", limitfeed.MaxTypes)

// followLimits answers $ws:limits.
func (c *Conn) followLimits(s *scratch, env envelope.Envelope, _ []byte) (RefusedKind, error) {
	f, kind, err := c.newLimitFeed(s, env.Payload)
	if err != nil {
		return kind, err
	}
	c.limits.End()
	c.limits = f
	s.in.State.Limits = f.Reports()
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + limitfeed.Type + `","meta":{"correlationId":`)
	b.Write(env.CorrelationID)
	b.WriteString(`},"payload":`)
	f.Start(b)
	c.answer(b.Bytes())
	return "", nil
}

// newLimitFeed reads a request, and calls the middleware for the limits. The kind is that of an error.
func (c *Conn) newLimitFeed(s *scratch, payload []byte) (*limitfeed.Feed, RefusedKind, error) {
	var q struct {
		Types []string `json:"types"`
	}
	now := time.Now()
	if err := c.checkState(s); err != nil {
		return nil, RefusedDraining, err
	}
	if json.Unmarshal(payload, &q) != nil || len(q.Types) > limitfeed.MaxTypes {
		return nil, RefusedPayload, errFollowedTypes
	}
	if wait := c.limits.Wait(now); wait > 0 {
		return nil, "", &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: wait}
	}
	slices.Sort(q.Types)
	unknown := func(typ string) bool { return c.serving.routes[typ] == nil }
	types := slices.DeleteFunc(slices.Compact(q.Types), unknown)
	feed := limitfeed.New((*follower)(c), types, now)
	s.in.State.Limits, s.in.Peek = feed, true
	defer func() { s.in.State.Limits, s.in.Peek = c.limits.Reports(), false }()
	for _, typ := range types {
		f := incoming{route: c.serving.routes[typ], env: envelope.Envelope{Type: []byte(typ)}, complete: true}
		if err := c.askMiddleware(s, &f); err != nil {
			return nil, RefusedMiddleware, err
		}
	}
	return feed, "", nil
}

// follower is what a limitfeed.Feed has of a connection.
type follower Conn

func (f *follower) Closing() bool { return f.life.State() >= life.Closing }

func (f *follower) Queued() int { return (*Conn)(f).Queued() }

func (f *follower) SendNow(b *frame.Buffer) error { return (*Conn)(f).sendNow(b) }
