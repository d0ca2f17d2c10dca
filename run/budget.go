package run

import (
	"cmp"
	"context"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
)

// Slice is a part of the budget that a run has reserved.
type Slice struct {
	// Units is how many units it has.
	Units int64 `json:"units"`
	// At and Shared are those of the decision, which giving back needs.
	At     int64 `json:"at"`
	Shared bool  `json:"shared,omitempty"`
}

// Left is the answer of run.budget: how many units of its budget the user has left, of how many. What runs have
// reserved is not left.
type Left struct {
	// Left is how many units are left, and Limit is the most that can be.
	Left  int64 `json:"left"`
	Limit int64 `json:"limit"`
	// ResetMs is in how many milliseconds all of them are back.
	ResetMs int64 `json:"resetMs"`
}

// spending is what a run has of the budget.
type spending struct {
	turn sync.Mutex // held while a slice is reserved, so that each is used before the next

	// Guarded by Writer.mu.
	slice    Slice // the last one; those of before are used up
	reserved int64 // of all slices
	used     int64
	noted    int64 // of these, in the history
}

// left is what is reserved and not used, of the last slice.
func (s Slice) left(reserved, used int64) int64 {
	return max(0, min(s.Units, reserved-used))
}

// budgetKey is that of the user of a run.
func (rs *Runs) budgetKey(tenant, user string) limit.Key {
	return rs.budget.Key(nil).Part(tenant).Part(user)
}

// left answers run.budget.
func (rs *Runs) left(c *router.Context, _ struct{}) (Left, error) {
	identity := c.Conn().Identity()
	d, err := rs.budget.Peek(c, rs.budgetKey(identity.Tenant, identity.User), 1)
	return Left{Left: d.Remaining, Limit: d.Limit, ResetMs: d.ResetAfter.Milliseconds()}, err
}

// Spend counts units of Options.Budget that the run uses: tokens of a model, for instance. Call it before they are
// used. The budget is charged slice by slice (Options.Slice), so Spend seldom waits; what is not used of the last slice
// is given back when the run ends. The error is RESOURCE_EXHAUSTED, with the time to wait, if the units do not fit:
// none of them is counted then. Without a budget Spend does nothing.
func (w *Writer) Spend(units int64) error {
	switch {
	case w.rs.budget == nil:
		return nil
	case units < 0:
		return errors.InvalidArgument.Errorf("run: Spend of %d units; give 0 or more", units)
	}
	if ok, err := w.use(units); ok || err != nil {
		return err
	}
	w.spending.turn.Lock()
	defer w.spending.turn.Unlock()
	for {
		ok, err := w.use(units)
		if ok || err != nil {
			return err
		}
		w.mu.Lock()
		needed := units - (w.spending.reserved - w.spending.used)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(w.ctx, w.rs.shared.ProcessTimeout)
		var s *Slice
		err = w.rs.untilDone(ctx, func() (err error) { // where an answer is lost, a slice more stays charged
			s, err = w.reserve(ctx, needed)
			return err
		})
		cancel()
		if err != nil {
			return err
		}
		if err := w.flush(&Output{Slice: s}); err != nil { // from there it is given back if this process is killed
			return err
		}
	}
}

// use uses units that are reserved, if there are as many.
func (w *Writer) use(units int64) (ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.takes(0); err != nil {
		return false, err
	}
	if w.spending.used+units > w.spending.reserved {
		return false, nil
	}
	w.spending.used += units
	w.flushIn(every)
	return true, nil
}

// reserve reserves a slice of so many units at least.
func (w *Writer) reserve(ctx context.Context, least int64) (*Slice, error) {
	key := w.rs.budgetKey(w.info.Tenant, w.info.User)
	d, err := w.rs.budget.Take(ctx, key, max(least, w.rs.o.Slice))
	if err == nil && !d.Allowed && d.Remaining >= least {
		d, err = w.rs.budget.Take(ctx, key, d.Remaining)
	}
	switch {
	case err != nil:
		return nil, err
	case !d.Allowed:
		return nil, errors.ResourceExhausted.New("run: the budget is used up").
			WithRetryAfter(cmp.Or(d.RetryAfter, d.ResetAfter))
	}
	s := Slice{Units: d.Charged, At: d.At, Shared: d.Shared}
	w.mu.Lock()
	w.spending.slice = s
	w.spending.reserved += s.Units
	w.mu.Unlock()
	return &s, nil
}

// giveBack gives back what a run that has ended has reserved and not used. The attempt that has ended it calls it, and
// once: a process that is killed before leaves at most a slice charged.
func (rs *Runs) giveBack(ctx context.Context, w Whole) {
	if rs.budget == nil {
		return
	}
	if err := rs.refund(ctx, w.Info, w.slice, w.slice.left(w.reserved, w.Spent)); err != nil {
		rs.o.Logger.Warn("run: what a run has not used of its budget was not given back",
			"type", w.Type, "run", w.ID, "error", err)
	}
}

// refund gives back units of a slice.
func (rs *Runs) refund(ctx context.Context, i Info, s Slice, units int64) error {
	if units == 0 {
		return nil
	}
	d := limit.Decision{Allowed: true, Charged: units, At: s.At, Shared: s.Shared}
	return rs.budget.Refund(ctx, rs.budgetKey(i.Tenant, i.User), d)
}
