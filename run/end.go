package run

import (
	"context"
	"crypto/rand"
	"encoding/json"

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
				if err := rs.lose(ctx, id); err != nil && ctx.Err() == nil {
					rs.o.Logger.Warn("run: the end of a run was not found out", "run", id, "error", err)
				}
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

// lose ends a run as lost, unless it has ended.
func (rs *Runs) lose(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, rs.shared.timeout)
	defer cancel()
	// Usually it has ended, which its last output says.
	last, err := rs.r.ReadHistory(ctx, rs.topic(id), router.HistoryQuery{Backwards: true, Limit: 1})
	if err != nil {
		return err
	}
	for _, m := range last.Messages {
		var o Output
		if json.Unmarshal(m.Payload, &o) == nil && o.End != nil {
			return nil
		}
	}
	whole, err := rs.read(ctx, id)
	switch {
	case errors.CodeOf(err) == errors.NotFound: // it was refused before it began
		return nil
	case err != nil || whole.End != nil:
		return err
	}
	lost := Output{N: whole.N + 1, Spent: whole.Spent, End: &End{State: Lost}, By: rand.Text()}
	// Each process publishes it; the first one counts.
	if err := rs.output.Publish(ctx, rs.topic(id), lost); err != nil {
		return err
	}
	first, err := rs.settle(ctx, id, lost.By)
	if first {
		rs.count(whole.Type, func(t *TypeStats) { t.ended(Lost) })
	}
	return err
}

// settle reports whether it was this attempt that has ended a run, and then gives back what the run has not used of the
// budget. A process that is killed before it has done so leaves at most a slice charged.
func (rs *Runs) settle(ctx context.Context, id, by string) (first bool, err error) {
	w, err := rs.read(ctx, id)
	if err != nil || w.by != by {
		return false, err
	}
	return true, rs.giveBack(ctx, w.Info, w.slice, w.slice.left(w.reserved, w.Spent))
}
