package router

import (
	"cmp"
	"slices"
	"strings"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/histogram"
	"github.com/wskit/wskit/router/internal/metrics"
)

// Histogram counts durations in buckets; the bound of each is twice that of the one before. Counts
// has their numbers by bucket, with those longer than all of Bounds at the end, and Sum is the sum
// of the durations.
type Histogram = histogram.Snapshot

// Stats are the figures of a Router in this process, since it was made unless they say "now". They
// are read one after the other, not at one moment. Their number is bounded, whatever clients send.
// Messages that the reader of a connection handles are counted when it has handled all that have
// come together.
type Stats struct {
	Connections int64 // open now
	Accepted    int64 // connections accepted
	// RefusedHandshakes counts the handshakes that were not accepted, by reason.
	RefusedHandshakes map[RefusedKind]int64
	// ClosedByServer and ClosedByClient count the connections that have ended, by close code and by
	// the side that began the closing. A connection that ended without a close frame has 1006. Only
	// the codes of package errors and 1002, 1005, 1006 and 1007 are counted separately; the key 0
	// has the sum of all others.
	ClosedByServer, ClosedByClient map[errors.CloseCode]int64
	// ConnectionTime is how long the connections lasted that have ended.
	ConnectionTime Histogram

	// BytesRead and BytesWritten count what connections have read and written, without TLS;
	// FramesWritten are the frames of the latter, with control frames.
	BytesRead, BytesWritten, FramesWritten int64
	// Backlogged is how many connections have output now that the client does not take at once,
	// and BacklogBytes how much that is.
	Backlogged, BacklogBytes int64

	// Types are the messages that came, by registered type, in the order of the types. The last one
	// has no Type: it counts all messages whose type is not registered, or could not be read. Each
	// message counts once. Before the first connection no other type is in the list.
	Types []TypeStats
	// Waiting is how long messages waited for their turn, from when they were read.
	Waiting Histogram
	// InFlight is how many messages are being handled or wait for their turn now. Those
	// whose handlers have run for less than 2 to 4 ms are not included.
	InFlight int64

	// RefusedMessages counts the messages that were refused before they reached their handler,
	// by reason. Those that a limit rejected are not included.
	RefusedMessages map[RefusedKind]int64
	Rejected        int64 // messages rejected by a limit of any kind
	Unanswered      int64 // of these, messages that were dropped without an answer
	// Rejections are those of Rejected, by limit. There are at most 64; the last one, with the
	// limiter and kind "other", then counts those of all other limits.
	Rejections []RejectionStats

	// Overload has the figures of Options.Overload.
	Overload OverloadStats

	SlowConsumers int64 // connections closed because they read too slowly
	FramesDropped int64 // frames that were queued and not sent

	// Published is how many messages were published or appended here, without those that the broker
	// refused: these are in PublishFailed. Delivered is how often a message of a topic was queued for a
	// subscriber here, wherever it was published. FramesDropped has those that were dropped after all.
	Published, PublishFailed, Delivered int64
	// Foreign is how many messages from the broker were dropped because they are not from a router.
	Foreign int64
	// Lost is how often the broker reported that messages of a topic may have been lost on the way to
	// this process. Those of topics with history are then read from the log.
	Lost int64
	// Recovered is how many messages were delivered only when the log had been read, because they did
	// not come by the subscription, or not in order. ReadFailures is how often a log could not be read.
	Recovered, ReadFailures int64
	// Behind is how many messages of the logs of topics this process had not delivered when it last
	// compared them (Options.HistoryCheck).
	Behind int64
	// Resets counts the topics whose members got $ws:reset because this process could not
	// deliver all, by reason.
	Resets map[string]int64
	// Revoked is how many memberships of this process ended by [Router.Revoke] and Options.Recheck.
	Revoked int64
	// Resumes counts the topics that clients wanted to resume: "resumed", or the reason why not, as
	// in $ws:resumed.
	Resumes map[string]int64

	Faults      int64 // errors without a code, panics and others, which OnError gets
	Panics      int64 // of these, panics
	HooksMissed int64 // calls of OnLimitExceeded and OnRefused that were left out because the hook was too slow
	// AnswersIgnored is how many answers came for questions that were not open: late, repeated, or
	// to no question.
	AnswersIgnored int64
	// Topics is how many topics have members in this process now. A topic counts from when the first connection begins
	// to subscribe until the broker has nothing more to do for it. With Options.Addressing there is one for each user,
	// and one for all.
	Topics int64
}

// TypeStats are the figures of the messages of one type.
type TypeStats struct {
	// Type is a registered type, or one of the protocol; empty: all others.
	Type string
	// Outcomes counts the messages by the code of the error that answered them, "OK" for none. Codes
	// that package errors does not have are counted as "OTHER".
	Outcomes map[errors.Code]int64
	// Handling is how long it took to handle the messages that reached their handler: their limits,
	// decoding and handler, and encoding the reply. For messages that waited for their turn it begins with that.
	Handling Histogram
}

// RejectionStats counts the rejections by one limit.
type RejectionStats struct {
	// Limiter is the name of the limiter; empty for limits of the router.
	Limiter string
	// Kind is what the limit bounds.
	Kind errors.LimitKind
	// Count is how many frames it has rejected.
	Count int64
}

// Stats returns the figures of the router.
func (r *Router) Stats() Stats {
	s, topics := &r.stats, &r.hub.Counts
	stats := Stats{
		Connections: r.conns.Len(), Accepted: s.accepted.Load(),
		RefusedHandshakes: s.handshakes.Snapshot(""),
		ClosedByServer:    s.closedByServer.Snapshot(0), ClosedByClient: s.closedByClient.Snapshot(0),
		ConnectionTime: s.lasted.Snapshot(),
		Types:          r.typeStats(), InFlight: r.handlers.Count(),
		RefusedMessages: s.messages.Snapshot(""),
		Rejected:        s.rejected.Load(), Unanswered: s.unanswered.Load(), Rejections: s.rejectionStats(),
		Overload:      r.shedder.stats(),
		SlowConsumers: s.slow.Load(), FramesDropped: s.dropped.Load(),
		Published: s.published.Load(), PublishFailed: s.publishFailed.Load(), Delivered: topics.Delivered.Load(),
		Foreign: topics.Dropped.Load(), Lost: topics.Lost.Load(),
		Recovered: topics.Recovered.Load(), ReadFailures: topics.ReadFailures.Load(), Behind: topics.Behind.Load(), Revoked: topics.Revoked.Load(),
		Resets: s.resets.Snapshot(metrics.Others), Resumes: s.resumes.Snapshot(metrics.Others),
		Faults: s.faults.Load(), Panics: s.panics.Load(), HooksMissed: s.missed.Load(),
		AnswersIgnored: s.answersIgnored.Load(), Waiting: s.waited.Snapshot(),
		Topics: int64(r.hub.Topics()),
	}
	for i := range s.traffic {
		t := &s.traffic[i]
		stats.BytesRead += t.BytesRead.Load()
		stats.BytesWritten += t.BytesWritten.Load()
		stats.FramesWritten += t.FramesWritten.Load()
		stats.Backlogged += t.Backlogged.Load()
		stats.BacklogBytes += t.BacklogBytes.Load()
	}
	return stats
}

func (r *Router) typeStats() []TypeStats {
	var all []TypeStats
	if s := r.frozen.Load(); s != nil { // with those of the protocol
		for typ, rt := range s.routes {
			all = append(all, typeStats(typ, &rt.counters))
		}
	}
	slices.SortFunc(all, func(a, b TypeStats) int { return strings.Compare(a.Type, b.Type) })
	return append(all, typeStats("", &r.stats.unregistered))
}

func typeStats(typ string, t *metrics.Type) TypeStats {
	outcomes, handling := t.Snapshot()
	return TypeStats{Type: typ, Outcomes: outcomes, Handling: handling}
}

func (s *counters) rejectionStats() (all []RejectionStats) {
	s.rejections.Each(func(limiter string, kind errors.LimitKind, n int64) {
		all = append(all, RejectionStats{Limiter: limiter, Kind: kind, Count: n})
	})
	slices.SortFunc(all, func(a, b RejectionStats) int {
		return cmp.Or(strings.Compare(a.Limiter, b.Limiter), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return all
}
