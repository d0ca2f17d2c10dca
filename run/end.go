package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// watch finds out which runs of other processes are lost: those that leave the registry without an end.
func (rs *Runs) watch(ctx context.Context) error {
	left := make(chan string, maxLeft)
	known := make(map[string]bool)
	watch, err := rs.shared.presence.Watch(ctx, rs.registry(), func(r pubsub.PresenceReport) {
		if r.Complete {
			present := make(map[string]bool, len(r.Present))
			for _, m := range r.Present {
				present[m.ID] = true
			}
			for id := range known {
				if !present[id] {
					r.Left = append(r.Left, id)
				}
			}
		}
		for _, m := range r.Present {
			known[m.ID] = true
		}
		for _, id := range r.Left {
			delete(known, id)
			select {
			case left <- id:
			default: // it is found when the run is asked for
			}
		}
	})
	if err != nil {
		return err
	}
	go func() {
		defer watch.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-left:
				if rs.loseHere(id) {
					continue
				}
				_ = rs.lose(ctx, id) // it has tried until ctx ended
			}
		}
	}()
	return nil
}

// maxLeft is how many runs wait for being looked at.
const maxLeft = 100_000

// loseHere ends the context of a run of this process that left the registry while it goes on: this process stood still.
// It returns false if there is no such run here.
func (rs *Runs) loseHere(id string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	w := rs.here[id]
	if w != nil {
		w.cut(ErrLost)
	}
	return w != nil
}

// lose ends a run as lost, unless it has ended. It tries again while the backend fails, until ctx ends.
func (rs *Runs) lose(ctx context.Context, id string) error {
	by := rand.Text()
	return rs.untilDone(ctx, func() error { return rs.tryToLose(ctx, id, by) })
}

func (rs *Runs) tryToLose(ctx context.Context, id, by string) error {
	ctx, cancel := context.WithTimeout(ctx, rs.shared.timeout)
	defer cancel()
	// Usually it has ended, which its last output says.
	last, err := rs.r.ReadHistory(ctx, rs.topic(id), router.HistoryQuery{Backwards: true, Limit: 1})
	if err != nil {
		return err
	}
	for _, m := range last.Messages {
		var o Output
		if json.Unmarshal(m.Payload, &o) == nil && o.End != nil && o.By != by {
			return nil
		}
	}
	w, err := rs.read(ctx, id)
	switch {
	case errors.CodeOf(err) == errors.NotFound: // it was refused before it began
		return nil
	case err != nil:
		return err
	case w.End == nil:
		lost := Output{N: w.N + 1, Spent: w.Spent, End: &End{State: Lost}, By: by}
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
	return nil
}

// untilDone tries something until it succeeds, fails for a reason that stays, or ctx ends.
func (rs *Runs) untilDone(ctx context.Context, try func() error) error {
	for {
		err := try()
		switch errors.CodeOf(err) {
		case errors.InvalidArgument, errors.FailedPrecondition, errors.ResourceExhausted, errors.NotFound:
			return err
		}
		if err == nil {
			rs.outage.Works()
			return nil
		}
		if ctx.Err() != nil {
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
