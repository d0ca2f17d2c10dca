package run

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// watch finds out which runs of other processes are lost: those that leave the registry without an end.
func (rs *Runs) watch(ctx context.Context) error {
	left := make(chan string, maxLeft)
	watch, err := rs.shared.Presence.Watch(ctx, rs.registry(), func(r pubsub.PresenceReport) {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if r.Complete {
			present := make(map[string]bool, len(r.Present))
			for _, m := range r.Present {
				present[m.ID] = true
			}
			for id := range rs.registered {
				if !present[id] {
					r.Left = append(r.Left, id)
				}
			}
		}
		for _, m := range r.Present {
			rs.registered[m.ID] = true
		}
		for _, id := range r.Left {
			delete(rs.registered, id)
			select {
			case left <- id:
			default: // it is found when the run is asked for
			}
		}
	})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = watch.Close() })
	for range lookers {
		go rs.look(ctx, left)
	}
	return nil
}

// maxLeft is how many runs that have left wait for being looked at, and maxUnsure how many others. lookers is how many
// goroutines look: a killed process may have had thousands of runs, and each is several calls of the backend, which may
// fail for one run and work for others.
const (
	maxLeft   = 100_000
	maxUnsure = 10_000
	lookers   = 16
)

// look looks at runs, one after the other, until ctx ends.
func (rs *Runs) look(ctx context.Context, left <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-rs.unsure:
			_ = rs.untilDone(ctx, func() error { return rs.check(ctx, id) })
		case member := <-left:
			id, attempt := attemptOf(member)
			if w := rs.writer(id); w == nil || w.attempt != attempt { // else this process stood still, and is back
				_ = rs.lose(ctx, id, attempt) // it has tried until ctx ended
			}
		}
	}
}

// onTopic has a run looked at that a client has resumed: its process may be gone while there was no other one to
// notice.
func (rs *Runs) onTopic(topic string) {
	id, ok := strings.CutPrefix(topic, rs.o.Name+":")
	if !ok || rs.r.LocalSubscribers(topic) == 0 {
		return
	}
	rs.mu.Lock()
	known := rs.here[id] != nil || rs.attaching[id] > 0
	rs.mu.Unlock()
	if known {
		return
	}
	rs.lookAt(id)
}

// lookAt has check called for a run.
func (rs *Runs) lookAt(id string) {
	select {
	case rs.unsure <- id:
	default: // it is found when the run is asked for
	}
}

// check ends a run as lost, or begins it again, whose process is gone.
func (rs *Runs) check(ctx context.Context, id string) error {
	w, err := rs.read(ctx, id)
	if errors.CodeOf(err) == errors.NotFound {
		return nil
	}
	if err == nil && w.End == nil {
		_, err = rs.stillRunning(ctx, id, w)
	}
	return err
}

// lose ends a run as lost whose attempt is over, or begins it again, unless it has ended. It tries again while the
// backend fails, until ctx ends.
func (rs *Runs) lose(ctx context.Context, id string, attempt int) error {
	rs.mu.Lock()
	rs.losing[id]++
	rs.mu.Unlock()
	defer func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.losing[id]--; rs.losing[id] == 0 {
			delete(rs.losing, id)
		}
	}()
	next, by := attemptAfter(attempt), rand.Text()
	return rs.untilDone(ctx, func() error { return rs.tryToLose(ctx, id, attempt, next, by) })
}

func (rs *Runs) tryToLose(ctx context.Context, id string, attempt, next int, by string) error {
	ctx, cancel := context.WithTimeout(ctx, rs.shared.ProcessTimeout)
	defer cancel()
	// Usually it has ended, which its last output says.
	last, err := rs.r.ReadHistory(ctx, rs.topic(id), router.HistoryQuery{Backwards: true, Limit: 1})
	if err != nil {
		return err
	}
	for _, m := range last.Messages {
		if o, ok, _ := rs.outputOf(m); ok && o.End != nil && o.Attempt == attempt && o.By != by {
			return nil
		}
	}
	w, err := rs.read(ctx, id)
	switch {
	case errors.CodeOf(err) == errors.NotFound: // it was refused before it began
		return nil
	case err != nil:
		return err
	case w.End == nil && w.Attempt == next: // an answer to this try was lost
		rs.takeOver(ctx, w)
		return nil
	case w.End == nil && w.Attempt != attempt:
		return nil
	case w.End == nil && w.input != nil && rs.isClosed(): // another process begins it again
		return nil
	case w.End == nil && rs.mayRestart(w):
		return rs.restart(ctx, w, next)
	case w.isOpen():
		lost := Output{N: w.N + 1, Attempt: attempt, Spent: w.Spent, End: &End{State: Lost}, By: by}
		// Each process publishes it; the first one counts.
		if err := rs.output.Publish(ctx, rs.topic(id), lost); err != nil {
			return err
		}
		if w, err = rs.read(ctx, id); err != nil {
			return err
		}
	}
	if w.by != by {
		return nil
	}
	rs.count(w.Type, func(t *TypeStats) { t.ended(Lost) })
	rs.giveBack(ctx, w)
	rs.cutOff(ctx, w)
	return nil
}

// cutOff ends the handler of a run that is lost, in a process that only stood still. If that fails, it goes on for
// nothing: what it writes does not count.
func (rs *Runs) cutOff(ctx context.Context, w Whole) {
	_ = rs.send(ctx, w.process, input{Run: w.ID, Attempt: w.Attempt, ID: rand.Text(), Lost: true})
}

// untilDone tries something until it succeeds, fails for a reason that stays, or ctx ends.
func (rs *Runs) untilDone(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			rs.outage.Works()
			return nil
		}
		if stays(err) || ctx.Err() != nil {
			return err
		}
		rs.outage.Failed(err)
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return err
		}
	}
}

// stays reports whether an error has a code that says more than that the backend fails: the router has an INTERNAL one
// for an output that does not fit Limits.MaxQueued.
func stays(err error) bool {
	coded, ok := errors.AsType[*errors.Error](err)
	if !ok {
		return false
	}
	switch coded.Code {
	case errors.InvalidArgument, errors.FailedPrecondition, errors.ResourceExhausted, errors.NotFound, errors.Internal:
		return true
	}
	return false
}
