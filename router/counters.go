package router

import (
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/histogram"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/follow"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/metrics"
	"github.com/wskit/wskit/router/internal/watchdog"
	"github.com/wskit/wskit/router/internal/wire"
)

// stripes is over how many cache lines is spread what each message of a connection changes.
const stripes = metrics.Stripes

var _ = [1]struct{}{}[metrics.Stripes-watchdog.Stripes] // they are as many as those of the watchdog

// counters are the figures of a Router. Their number is bounded, whatever clients send: there are
// some for each registered type, limit and code, and none for a user or a topic.
type counters struct {
	accepted, rejected, unanswered, slow, dropped, faults, panics, missed, answersIgnored atomic.Int64
	published, publishFailed                                                              atomic.Int64

	handshakes, messages           metrics.Keyed[RefusedKind] // that were refused
	closedByServer, closedByClient metrics.Keyed[errors.CloseCode]
	resets, resumes                metrics.Keyed[string]
	rejections                     metrics.Limits
	lasted                         histogram.Long
	waited                         metrics.Waits

	unregistered metrics.Type // of all types that are not registered
	traffic      [stripes]wire.Traffic
	stripe       atomic.Uint32
}

func (s *counters) init() {
	s.handshakes, s.messages = metrics.NewKeyed(refusalKinds), metrics.NewKeyed(refusalKinds)
	s.closedByServer, s.closedByClient = metrics.NewKeyed(closeCodes), metrics.NewKeyed(closeCodes)
	s.resets, s.resumes = metrics.NewKeyed(resetReasons), metrics.NewKeyed(resumeOutcomes)
	s.unregistered.Init()
}

// The keys by which is counted. Others are counted together.
var (
	refusalKinds = []RefusedKind{
		RefusedDraining, RefusedOverload, RefusedHandshake, RefusedHost, RefusedOrigin, RefusedGate, RefusedIdentity, RefusedOpen,
		RefusedMiddleware, RefusedEnvelope, RefusedType, RefusedPayload,
	}
	// Clients choose codes, too.
	closeCodes = []errors.CloseCode{
		errors.CloseNormal, errors.CloseGoingAway, closeNoStatus, closeAbnormal, closeProtocol, closeData, errors.ClosePolicy, errors.ClosePayloadTooLarge,
		errors.CloseInternal, errors.CloseTryAgainLater, errors.CloseNoHeartbeat, errors.CloseSlowConsumer,
		errors.CloseUnauthenticated, errors.ClosePermissionDenied, errors.CloseTooManyRequests,
	}
	resetReasons   = []string{string(pubsub.LossEpoch), string(pubsub.LossTrimmed), string(pubsub.LossRewound), string(follow.LossTooFar)}
	resumeOutcomes = append([]string{resumeOK, string(hub.LossJoined), reasonDenied, reasonUnavailable}, resetReasons...)
)

// Close codes of RFC 6455 that package errors does not have, because no application sends them.
const (
	closeProtocol errors.CloseCode = 1002
	closeNoStatus errors.CloseCode = 1005
	closeData     errors.CloseCode = 1007
)

const resumeOK = "resumed"

func outcomeOf(err error) errors.Code {
	if err == nil {
		return metrics.OK
	}
	if l := rejection(err); l != nil {
		return l.Code()
	}
	return errors.CodeOf(err)
}

// countersOf returns the figures of a route, or of types that are not registered.
func (r *Router) countersOf(rt *route) *metrics.Type {
	if rt == nil {
		return &r.stats.unregistered
	}
	return &rt.counters
}

// batchCounters are the figures of messages that the reader has handled since it began a batch.
type batchCounters struct {
	metrics.Batch
	at time.Duration // when the last handler returned, after the epoch; 0: none has
}

// begin returns when the reader begins with a message. That is known: the reader had nothing else to
// do since the message came, or since the handler before it returned.
func (b *batchCounters) begin(c *Conn) time.Duration { return max(b.at, c.stream.Heard()) }

// handled counts a message that was handled inline.
func (b *batchCounters) handled(c *Conn, k *Context) {
	if k.outcome == metrics.None {
		return
	}
	b.at = c.router.now()
	b.Add(&k.route.counters, k.outcome, b.at-k.began, k.began-c.stream.Heard(), &c.router.stats.waited)
}

// countFinished counts a message that was not handled inline, or not to its end.
func (c *Context) countFinished() {
	if c.outcome == metrics.None {
		return
	}
	r, t, stripe := c.conn.router, &c.route.counters, c.conn.stripe
	if c.began == 0 { // its time was over before it was handled
		t.Add(c.outcome)
		return
	}
	t.AddHandled(c.outcome, stripe, r.now()-c.began, c.began-c.receivedAt.Sub(r.epoch), &r.stats.waited)
}

// count counts a message that does not reach a handler of the application.
func (r *Router) count(rt *route, err error) {
	r.countersOf(rt).Add(outcomeOf(err))
}
