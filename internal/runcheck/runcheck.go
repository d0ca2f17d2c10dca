// Package runcheck checks what docs/runs.md promises of runs while servers, networks and backends fail. A [User] begins
// them, watches each on two devices that reload, and gives it messages or stops it; then the devices and clients that
// come later must have the same text and the same end. The test breaks what it likes.
package runcheck

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/run"
)

// step is the time between two words of a run.
const step = 10 * time.Millisecond

// Handle registers the runs that users begin. Both write the numbers up to one, each as a word, and have as result how
// many they were. "count" puts the messages that it takes before them, in brackets; "steps" can be restarted.
func Handle(rs *run.Runs) {
	run.Handle(rs, "count", func(ctx context.Context, most int, w *run.Writer) error {
		for n := range most {
			message, ok, err := w.TryInput()
			if err == nil && ok {
				err = w.Text(fmt.Sprintf("<%s> ", message))
			}
			if err == nil {
				err = w.Text(fmt.Sprint(n, " "))
			}
			if err == nil {
				err = sleep(ctx, step)
			}
			if err != nil {
				return err
			}
		}
		return w.Done(most)
	})
	run.Handle(rs, "steps", func(ctx context.Context, most int, w *run.Writer) error {
		n := 0
		if _, err := w.Resume(&n); err != nil {
			return err
		}
		for ; n < most; n++ {
			err := w.Text(fmt.Sprint(n, " "))
			if err == nil && n%20 == 19 {
				err = w.Checkpoint(n + 1)
			}
			if err == nil {
				err = sleep(ctx, step)
			}
			if err != nil {
				return err
			}
		}
		return w.Done(n)
	}, run.HandleOptions{Restartable: true})
}

// sleep waits, and returns the cause of the end of ctx if that comes first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Report is what users have seen. They may add to it at the same time; its fields are read when they have ended.
type Report struct {
	mu sync.Mutex
	// Rounds are runs that were checked, and Losses those of them during which the backend may have lost what it had
	// acknowledged.
	Rounds, Losses int
	// Ends are how they have ended; "gone" are those that the backend has lost as a whole.
	Ends map[string]int
	// Seen counts what happened to them, by its name.
	Seen map[string]int
	// Violations are the promises that were not kept.
	Violations []string
}

// NewReport returns a report without rounds.
func NewReport() *Report { return &Report{Ends: make(map[string]int), Seen: make(map[string]int)} }

func (r *Report) saw(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Seen[what]++
}

func (r *Report) violated(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Violations = append(r.Violations, what)
}

// take checks a round.
func (r *Report) take(o *round) {
	for _, what := range o.check() {
		r.violated(what + "; " + o.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Rounds++
	if o.loss {
		r.Losses++
	}
	r.Ends[o.later[0].state()]++
}

// String says what was seen.
func (r *Report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%d runs, %d of them while the backend may have lost a part; they ended as %v; %v",
		r.Rounds, r.Losses, r.Ends, r.Seen)
	if len(r.Violations) > 0 {
		text += "; violations:\n" + strings.Join(r.Violations, "\n")
	}
	return text
}
