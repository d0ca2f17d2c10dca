// Package sharedrules keeps the rules of a [rules.Limiter] the same in all processes that share a backend. What
// one of them replaces reaches the others within milliseconds, and those that start later:
//
//	limiter, err := rules.New(backend.Limits, parsed, rules.Options{…})
//	shared, err := sharedrules.Follow(ctx, backend.Broker.(pubsub.Log), limiter)
//	…
//	err = shared.Replace(ctx, document)
//
// The rules are the messages of a log, in an order that is the same for all. Each says which rules it replaces. If two
// processes replace the same rules at once, all processes take those that are first in the log, and the other call
// fails.
package sharedrules

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/logfollow"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/pubsub"
)

// Options configure [Follow].
type Options struct {
	// Name distinguishes several limiters that share a log. At most 100 bytes.
	//
	// Default: "rules".
	Name string
	// OnReplaced is called when the limiter has other rules, by one goroutine, with their Version.
	//
	// Default: none.
	OnReplaced func(version string)
	// Logger gets rules that this process does not understand, and failures of the log.
	//
	// Default: slog.Default().
	Logger *slog.Logger
}

// Shared are rules that processes share. Its methods may be called from any goroutine.
type Shared struct {
	log     logfollow.Follower
	limiter *rules.Limiter
	o       Options

	mu      sync.Mutex
	applied pubsub.Position       // of the rules in force; zero: those that the limiter was made with
	waiting map[string]chan error // calls of Replace, by the id of their entry
}

// entry is a message of the log.
type entry struct {
	ID    string          `json:"id"`
	Base  string          `json:"base"` // the position of the rules that these replace; empty: none were shared before
	Rules json.RawMessage `json:"rules"`
}

// history keeps the latest rules for good, and some before them, for processes that are behind.
var history = pubsub.History{Messages: 100, Bytes: 16 << 20, Age: 10 * 365 * 24 * time.Hour}

const (
	maxDocument = 1 << 20
	maxName     = 100
)

// Follow gives the limiter the rules that are in the log, if there are any, and returns. From then on it follows them
// until Close. If ctx ends before, the error is UNAVAILABLE, and Follow goes on trying: the limiter has the rules that
// it was made with until it succeeds. It panics if an option makes no sense.
func Follow(ctx context.Context, log pubsub.Log, limiter *rules.Limiter, options ...Options) (*Shared, error) {
	o := given.Must("sharedrules", "Follow", options)
	o.Name = cmp.Or(o.Name, "rules")
	switch {
	case log == nil || limiter == nil:
		panic("sharedrules: Follow without a log or a limiter; give it both")
	case len(o.Name) > maxName:
		panic(fmt.Sprintf("sharedrules: Options.Name has %d bytes; give it at most %d", len(o.Name), maxName))
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Shared{limiter: limiter, o: o, waiting: map[string]chan error{}}
	s.log = logfollow.Follower{
		Log: log, Topic: "$ws:rules:" + o.Name, History: history, Take: s.take, Restart: s.restart,
		Outage: outage.Reporter{
			Component: "rules", Name: o.Name, Log: o.Logger, Attrs: []any{"name", o.Name},
			Failing: "sharedrules: the log of the rules fails; those in force stay until it works",
			Working: "sharedrules: the log of the rules works again",
		},
	}
	s.log.Start()
	return s, s.await(ctx)
}

// await returns when the log has been read once.
func (s *Shared) await(ctx context.Context) error {
	switch err := s.log.Await(ctx); err {
	case nil:
		return nil
	case logfollow.ErrEnded:
		return errClosed
	default:
		return errors.Unavailable.Wrap(err, "the shared rules are not known yet; give Follow more time, or go on with those of the limiter")
	}
}

var errClosed = errors.Unavailable.New("the shared rules are closed; use them before Close")

// Close ends the following. The limiter keeps its rules.
func (s *Shared) Close() error {
	s.log.Close()
	return nil
}

// Version is the position of the rules in force, for a page that shows whether all processes have the same; empty while
// those are in force that the limiter was made with.
func (s *Shared) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return version(s.applied)
}

func version(p pubsub.Position) string {
	if p == (pubsub.Position{}) {
		return ""
	}
	return p.String()
}

// Replace replaces the rules in all processes, by a document as for [rules.Parse]. When it returns nil, this
// process has them, and each other one has them when it has read the log. The error is a [*rules.Error],
// ABORTED if other rules were set since this process has read them, or UNAVAILABLE: then the rules may be set or not.
func (s *Shared) Replace(ctx context.Context, document []byte) error {
	if len(document) > maxDocument {
		return errors.InvalidArgument.Errorf("rules of %d bytes: give at most %d", len(document), maxDocument)
	}
	if _, err := rules.Parse(document); err != nil {
		return err
	}
	if err := s.await(ctx); err != nil {
		return err
	}
	e := entry{ID: rand.Text(), Rules: document}
	done := make(chan error, 1)
	s.mu.Lock()
	e.Base = version(s.applied)
	s.waiting[e.ID] = done
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, e.ID)
	}()
	frame, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := s.log.Log.Append(ctx, pubsub.Message{Topic: s.log.Topic, Frame: frame}, history, e.ID); err != nil {
		return errors.Unavailable.Wrap(err, "the rules may not have been stored; set them again")
	}
	s.log.Look()
	select {
	case err := <-done:
		return err
	case <-s.log.Ended():
		return errClosed
	case <-ctx.Done():
		return errors.Unavailable.Wrap(ctx.Err(), "the rules were stored and not read again in time; give Replace more time")
	}
}

// restart is called when the log was lost, or this process is far behind: it begins as one that starts.
func (s *Shared) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = pubsub.Position{}
}

// take takes the next message of the log.
func (s *Shared) take(m pubsub.Message) {
	var e entry
	err := json.Unmarshal(m.Frame, &e)
	s.mu.Lock()
	taken := err == nil && s.replaces(e, m.Position)
	if taken {
		s.applied = m.Position
	}
	s.mu.Unlock()
	if taken {
		var parsed rules.Rules
		if parsed, err = rules.Parse(e.Rules); err == nil {
			err = s.limiter.Replace(parsed)
		}
		if err == nil && s.o.OnReplaced != nil {
			s.o.OnReplaced(m.Position.String())
		}
	}
	if err != nil {
		s.o.Logger.Error("sharedrules: this process cannot use the shared rules; those in force stay", "name", s.o.Name, "error", err)
	} else if !taken {
		err = errors.Aborted.New("other rules were set meanwhile; set yours again when you have read them")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := s.waiting[e.ID]; done != nil {
		done <- err
	}
}

// replaces reports whether a message replaces the rules in force: all processes come to the same result. A process that
// begins behind the first message of the log cannot know which rules were in force then, and waits for a message whose
// author had read the one before it. mu is held.
func (s *Shared) replaces(e entry, at pubsub.Position) bool {
	none := s.applied == pubsub.Position{}
	switch base, err := pubsub.ParsePosition(e.Base); {
	case at.Offset == 1:
		return true
	case none:
		return err == nil && base.Epoch == at.Epoch && base.Offset == at.Offset-1
	default:
		return err == nil && base == s.applied
	}
}
