package cfdo_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/stepclock"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// The clock of the machine is stepped back and forth while the Worker runs,
// and the object is swept whenever it has gone forwards. (To an object in memory the
// runtime does not show that its clock was set back, so it is evicted at every step.)
func TestStoreUnderAClockThatIsStepped(t *testing.T) {
	t.Parallel()
	clock := stepclock.New(t)
	w := workerdtest.Start(t, workerdtest.Config{Clock: clock})
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		s := openStore(t, w.URL, cfdo.Options{Tenant: func(string) string { return "stepped" }, Remember: -1})
		return limittest.Subject{Store: s, Steps: 2, Step: func(d time.Duration) {
			clock.Step(d)
			w.Evict("tenant:stepped:0")
			if d > 0 {
				w.Sweep("tenant:stepped:0")
			}
		}}
	})
}

// A row is kept until a clock that is set back by the tolerance could no longer use it,
// and swept then.
func TestRowsOutliveWhatTheyCountFor(t *testing.T) {
	t.Parallel()
	clock := stepclock.New(t)
	w := workerdtest.Start(t, workerdtest.Config{Clock: clock})
	s := openStore(t, w.URL, cfdo.Options{Tenant: func(string) string { return "kept" }})
	d := take(t, s, "k", limit.FixedWindow{Limit: 1, Window: 720 * time.Hour}, 1)
	rows := func() int {
		w.Sweep("tenant:kept:0")
		return w.Inspect("tenant:kept:0").Rows
	}
	clock.Step(d.ResetAfter + limit.ClockTolerance/2)
	if rows() != 1 {
		t.Error("a row is gone within the tolerance")
	}
	clock.Step(limit.ClockTolerance / 2)
	eventually(t, "the row is gone", func() bool { return rows() == 0 })
}
