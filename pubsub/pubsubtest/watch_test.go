package pubsubtest_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/suitetest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

// gallery is a presence that is right, but for how it is watched.
type gallery struct {
	pubsub.PresenceWatcher
	fault watchFault
}

type watchFault struct {
	name, part, rule string

	report     func(n int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) // n is the number of the report
	topic      func(string) string
	listBefore bool // reads the list, and then begins to watch
	never      bool // ends with Close
	withCtx    bool // ends with the context
}

func (g gallery) Watch(ctx context.Context, topic string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	f := g.fault
	if f.topic != nil {
		topic = f.topic(topic)
	}
	n := 0
	inner := func(r pubsub.PresenceReport) {
		n++
		switch {
		case f.listBefore && n == 1:
		case f.report != nil:
			f.report(n, r, report)
		default:
			report(r)
		}
	}
	if f.listBefore {
		list, _ := g.Members(ctx, topic)
		report(pubsub.PresenceReport{Complete: true, Present: list})
		for range 100 { // a member comes or goes meanwhile
			runtime.Gosched()
		}
	}
	sub, err := g.PresenceWatcher.Watch(ctx, topic, inner)
	if f.withCtx {
		context.AfterFunc(ctx, func() { _ = sub.Close() })
	}
	if f.never {
		return forever{}, err
	}
	return sub, err
}

func (g gallery) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if g.fault.topic != nil {
		topic = g.fault.topic(topic)
	}
	return g.PresenceWatcher.Join(ctx, topic, m)
}

type forever struct{}

func (forever) Close() error { return nil }

var watchFaults = []watchFault{
	{name: "ListAlone", part: "WatchersSeeChanges", rule: "each change is reported",
		report: func(n int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) {
			if n == 1 {
				report(r)
			}
		}},
	{name: "FirstLater", part: "WatchersSeeChanges", rule: "the first report is complete",
		report: func(n int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) {
			if n == 1 {
				time.AfterFunc(time.Millisecond, func() { report(r) })
			} else {
				report(r)
			}
		}},
	{name: "DataNotReported", part: "WatchersSeeChanges", rule: "a member is reported as it joined last",
		report: func(_ int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) {
			for i := range r.Present {
				r.Present[i].Data = nil
			}
			report(r)
		}},
	{name: "LeavesNotReported", part: "WatchersSeeChanges", rule: "each change is reported",
		report: func(_ int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) { r.Left = nil; report(r) }},
	{name: "GapBehindTheList", part: "WatchedWithoutAGap", rule: "between the list and the changes", listBefore: true},
	{name: "OutOfOrder", part: "WatchersAgree", rule: "changes are reported in order",
		report: func(n int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) {
			if n%7 == 3 {
				time.AfterFunc(time.Millisecond, func() { report(r) })
			} else {
				report(r)
			}
		}},
	{name: "LeavesAndComesBack", part: "WatchersSeeAChangeOnce", rule: "a member that stays is never reported as left",
		report: func(_ int, r pubsub.PresenceReport, report func(pubsub.PresenceReport)) {
			if !r.Complete {
				report(pubsub.PresenceReport{Left: []string{"stays"}})
				report(pubsub.PresenceReport{Present: []pubsub.Member{{ID: "stays"}}})
			}
			report(r)
		}},
	{name: "NamesFolded", part: "WatchedTopicsAreApart", rule: "a watcher is reported its topic", topic: strings.ToLower},
	{name: "NeverEnds", part: "WatchEndsWithClose", rule: "after Close no report begins", never: true},
	{name: "EndsWithContext", part: "WatchOutlivesItsContext", rule: "a context is for the call alone", withCtx: true},
}

func TestPresenceSuiteCatchesWatchers(t *testing.T) {
	for _, f := range watchFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			catches(t, "^TestFaultyWatcher$/^"+f.part+"$", f.name, f.rule)
		})
	}
}

func TestFaultyWatcher(t *testing.T) {
	f := suitetest.Find(t, watchFaults, func(f watchFault) string { return f.name })
	setLimit()
	pubsubtest.RunPresence(t, func(_ *testing.T, n int) []pubsub.Presence {
		shared := memory.NewPresence()
		all := make([]pubsub.Presence, n)
		for i := range all {
			all[i] = gallery{shared, f}
		}
		return all
	})
}
