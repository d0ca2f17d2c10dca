package router

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/histogram"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/follow"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/watchdog"
	"github.com/wskit/wskit/router/internal/wire"
)

// stripes is over how many cache lines is spread what each message of a connection changes.
const stripes = watchdog.Stripes

// counters are the figures of a Router. Their number is bounded, whatever clients send: there are
// some for each registered type, limit and code, and none for a user or a topic.
type counters struct {
	accepted, rejected, unanswered, slow, dropped, faults, panics, missed, answersIgnored atomic.Int64
	published, publishFailed                                                              atomic.Int64

	handshakes, messages           keyed[RefusedKind] // that were refused
	closedByServer, closedByClient keyed[errors.CloseCode]
	resets, resumes                keyed[string]
	rejections                     rejections
	lasted                         histogram.Long
	waited                         [stripes]histogram.Histogram

	unregistered typeCounters // of all types that are not registered
	traffic      [stripes]wire.Traffic
	stripe       atomic.Uint32
}

func (s *counters) init() {
	s.handshakes, s.messages = newKeyed(refusalKinds), newKeyed(refusalKinds)
	s.closedByServer, s.closedByClient = newKeyed(closeCodes), newKeyed(closeCodes)
	s.resets, s.resumes = newKeyed(resetReasons), newKeyed(resumeOutcomes)
	s.unregistered.init()
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
	// outcomes of messages: OK, or the code of the error.
	outcomes = []errors.Code{
		outcomeOK, errors.Unauthenticated, errors.PermissionDenied, errors.InvalidArgument, errors.FailedPrecondition,
		errors.NotFound, errors.AlreadyExists, errors.Unimplemented, errors.Cancelled, errors.DeadlineExceeded,
		errors.ResourceExhausted, errors.Unavailable, errors.Aborted, errors.Internal,
	}
)

// Close codes of RFC 6455 that package errors does not have, because no application sends them.
const (
	closeProtocol errors.CloseCode = 1002
	closeNoStatus errors.CloseCode = 1005
	closeData     errors.CloseCode = 1007
)

const (
	outcomeOK   errors.Code = "OK"
	outcomeNone errors.Code = "" // the message is not counted: another one stands for it
	resumeOK                = "resumed"
)

// keyed counts by one of a few keys, and everything else together.
type keyed[K comparable] struct {
	keys []K
	n    []atomic.Int64 // one more than keys
}

func newKeyed[K comparable](keys []K) keyed[K] {
	return keyed[K]{keys, make([]atomic.Int64, len(keys)+1)}
}

func (k *keyed[K]) add(key K) {
	i := slices.Index(k.keys, key)
	if i < 0 {
		i = len(k.keys)
	}
	k.n[i].Add(1)
}

// snapshot returns what is not 0, under the key other what has none of the keys.
func (k *keyed[K]) snapshot(other K) map[K]int64 {
	all := make(map[K]int64)
	for i := range k.n {
		key := other
		if i < len(k.keys) {
			key = k.keys[i]
		}
		if n := k.n[i].Load(); n != 0 {
			all[key] = n
		}
	}
	return all
}

// typeCounters are the figures of a type.
type typeCounters struct {
	outcomes keyed[errors.Code] // but OK of those below
	handled  [stripes]handled
}

// handled counts messages that were handled inline, with OK, and how long all took.
type handled struct {
	ok       atomic.Int64
	handling histogram.Histogram
	_        [64]byte
}

func (t *typeCounters) init() { t.outcomes = newKeyed(outcomes) }

func outcomeOf(err error) errors.Code {
	if err == nil {
		return outcomeOK
	}
	if l := rejection(err); l != nil {
		return l.Code()
	}
	return errors.CodeOf(err)
}

// countersOf returns the figures of a route, or of types that are not registered.
func (r *Router) countersOf(rt *route) *typeCounters {
	if rt == nil {
		return &r.stats.unregistered
	}
	return &rt.counters
}

// batchCounters are the figures of messages that the reader has handled since it began a batch.
// They are added to those of the type when the batch ends, or a message of another type comes.
type batchCounters struct {
	of       *typeCounters // of the messages below; nil: there are none
	ok       int64
	handling histogram.Local
	waited   histogram.Local
	stripe   uint8
	at       time.Duration // when the last handler returned, after the epoch; 0: none has
}

// begin returns when the reader begins with a message. That is known: the reader had nothing else to
// do since the message came, or since the handler before it returned.
func (b *batchCounters) begin(c *Conn) time.Duration { return max(b.at, c.stream.Heard()) }

// handled counts a message that was handled inline.
func (b *batchCounters) handled(c *Conn, k *Context) {
	if k.outcome == outcomeNone {
		return
	}
	t := &k.route.counters
	if b.of != t {
		b.move(c.router)
		b.of = t
	}
	if k.outcome == outcomeOK {
		b.ok++
	} else {
		t.outcomes.add(k.outcome)
	}
	b.at = c.router.now()
	b.handling.Add(b.at - k.began)
	b.waited.Add(k.began - c.stream.Heard())
}

func (b *batchCounters) move(r *Router) {
	if b.of == nil {
		return
	}
	t := &b.of.handled[b.stripe]
	t.ok.Add(b.ok)
	b.handling.Move(&t.handling)
	b.waited.Move(&r.stats.waited[b.stripe])
	b.of, b.ok = nil, 0
}

// countFinished counts a message that was not handled inline, or not to its end.
func (c *Context) countFinished() {
	if c.outcome == outcomeNone {
		return
	}
	r, t, stripe := c.conn.router, &c.route.counters, c.conn.stripe
	t.outcomes.add(c.outcome)
	if c.began == 0 { // its time was over before it was handled
		return
	}
	t.handled[stripe].handling.Add(r.now() - c.began)
	r.stats.waited[stripe].Add(c.began - c.receivedAt.Sub(r.epoch))
}

// count counts a message that does not reach a handler of the application.
func (r *Router) count(rt *route, err error) {
	r.countersOf(rt).outcomes.add(outcomeOf(err))
}

// rejections counts by limiter and kind. Names of limiters are the application's; so that their number
// is bounded whatever it does, the last entry is for all others.
type rejections struct {
	all atomic.Pointer[[]*rejected]
	mu  sync.Mutex // of writers
}

const maxRejections = 64

type rejected struct {
	limiter string
	kind    errors.LimitKind
	n       atomic.Int64
}

func (s *rejections) find(l *errors.LimitExceeded) *rejected {
	if all := s.all.Load(); all != nil {
		for _, e := range *all {
			if e.limiter == l.Limiter && e.kind == l.Kind {
				return e
			}
		}
		if len(*all) == maxRejections {
			return (*all)[maxRejections-1]
		}
	}
	return nil
}

func (s *rejections) add(l *errors.LimitExceeded) {
	e := s.find(l)
	if e == nil {
		e = s.insert(l)
	}
	e.n.Add(1)
}

func (s *rejections) insert(l *errors.LimitExceeded) *rejected {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(l); e != nil {
		return e
	}
	var all []*rejected
	if now := s.all.Load(); now != nil {
		all = slices.Clip(*now)
	}
	e := &rejected{limiter: l.Limiter, kind: l.Kind}
	if len(all) == maxRejections-1 {
		e.limiter, e.kind = otherLimits, otherLimits
	}
	all = append(all, e)
	s.all.Store(&all)
	return e
}

// otherLimits stands for the limits that have no figure of their own.
const otherLimits = "other"
