package run

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
)

// Options configure [New]. The zero value works.
type Options struct {
	// Name begins the types of requests and events and the topics. Small letters, digits and '-', at most 40.
	//
	// Default: "run".
	Name string
	// AtOnce is how many runs a user may have at the same time, in all processes; a client without a user, by its
	// connection. Negative: no limit.
	//
	// Default: 10.
	AtOnce int
	// Budget is what the runs of a user may use, in units of the application such as tokens: [Writer.Spend] counts
	// them. Runs of clients without a user are refused then. Use a window or a quota: a bucket gives back less than was
	// not used.
	//
	// Default: none; Spend does nothing.
	Budget limit.Policy
	// Slice is how many units of the budget a run reserves at a time. Without as many, it reserves what there is.
	//
	// Default: 1,000.
	Slice int64
	// Allow decides whether a client that has not begun a run may watch, stop and steer it: with nil it may.
	//
	// Default: only the user that has begun it may; if that was a client without a user, any client without a user that
	// knows the id.
	Allow func(c *router.Context, run Info) error
	// MaxBytes bounds the text and the events of a run. [Writer.Text] fails beyond it. run.attach answers with all of
	// it in one message: with more than 4 MiB raise MaxMessage of Go clients, too.
	//
	// Default: 1 MiB.
	MaxBytes int
	// Keep is how long the output of a run is kept.
	//
	// Default: 24 h.
	Keep time.Duration
	// Logger gets a line for each run that has failed without a code, and for what the backend refuses.
	//
	// Default: slog.Default().
	Logger *slog.Logger
}

var name = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

func (o Options) withDefaults() (Options, error) {
	o.Name, o.AtOnce, o.MaxBytes = cmp.Or(o.Name, "run"), cmp.Or(o.AtOnce, 10), cmp.Or(o.MaxBytes, 1<<20)
	o.Slice = cmp.Or(o.Slice, 1000)
	o.Keep, o.Logger = cmp.Or(o.Keep, 24*time.Hour), cmp.Or(o.Logger, slog.Default())
	if o.Budget != nil {
		if _, err := limit.Compile(o.Budget); err != nil {
			return o, err
		}
	}
	switch {
	case !name.MatchString(o.Name):
		return o, fmt.Errorf("run: Options.Name is %q; use small letters, digits and '-', at most 40", o.Name)
	case o.MaxBytes < 0:
		return o, fmt.Errorf("run: Options.MaxBytes is negative; use 0 for the default")
	case o.Slice < 0:
		return o, fmt.Errorf("run: Options.Slice is negative; use 0 for the default")
	case o.Keep < time.Minute:
		return o, fmt.Errorf("run: Options.Keep is %v; use 1m or more, or 0 for the default", o.Keep)
	}
	return o, nil
}
