package limit

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/wskit/wskit/internal/engine"

	"github.com/wskit/wskit/errors"
)

// Options configure a [Limiter]. The zero value is ready to use over a store in this
// process; over a shared store, Name must be set.
type Options struct {
	// Name is the namespace of the limiter's keys: limiters of one name over
	// one store share state, and others never do. Letters, digits, '.', '_', '-'
	// and '/', at most 64. Two of one name need one policy: otherwise neither limits, and a line is logged where
	// both are in one process.
	//
	// Over a store that other processes share there is no default: a generated name would
	// either differ between the processes that should share a limit, or be the same in two
	// programs that should not. Over a store in this process (see [Store]), "" means a name
	// that no other limiter has.
	//
	// Default: none; over a shared store it must be set.
	Name string

	// Prefix comes before the name in every key, for databases that hold more than limits. The same characters as in a
	// name.
	//
	// Default: that of the store, and "wskit" for a store that has none.
	Prefix string

	// OnFailure says what decides when the store does not answer.
	//
	// Default: [FailLocal].
	OnFailure Failure

	// Timeout bounds how long the store may take to answer. Negative: only the caller's context bounds it. It does
	// not apply to a store in this process.
	//
	// It counts from the instant at which a decision is asked for, and with Redis from the instant
	// at which the question is sent. It should be at least a quarter longer than the longest usual
	// round trip to the store: the default is for up to 80 ms. If it is too short, Stats.TimedOut
	// grows.
	//
	// Default: 100 ms.
	Timeout time.Duration

	// Shadow makes the limiter decide and count, but never refuse: what would
	// have been a denial comes back allowed with [Decision.Shadowed] set, and a
	// [Pacer] asks for no wait. It is for trying a limit on real traffic.
	//
	// Default: false.
	Shadow bool

	// FallbackKeys bounds the keys of [FailLocal]. Negative panics. Beyond it, keys share.
	//
	// Default: 65,536.
	FallbackKeys int

	// Logger gets a line, with the cause, when the limiter stops using its store, and another when
	// it uses it again: once each, not per decision. It gets one if another limiter has this name and
	// another policy. nil means slog.Default().
	Logger *slog.Logger

	// OnOutage is called at the same times, with what the store failed with: for metrics and
	// alerts. It is never called by two goroutines at once, never by one that makes a decision, and
	// under no lock, so it may block. Until it returns, only the latest change is kept. Its panics
	// are logged. nil means that nothing is called.
	//
	// Default: none.
	OnOutage func(errors.Outage)

	// Now is the clock of FailLocal, from 1970 to 2112. Outside of that it is taken to stand still at the nearer end.
	//
	// Default: the monotonic clock of the process.
	Now func() time.Time
}

// Failure says what decides when the store does not answer.
type Failure uint8

const (
	// FailLocal decides in this process by the same policy, beginning with nothing used: each
	// process then admits at most what the policy allows.
	FailLocal Failure = iota
	// FailOpen admits everything that could ever be admitted.
	FailOpen
	// FailClosed answers with an UNAVAILABLE error and a retry hint of a second.
	FailClosed
)

// text names the policy, for logs.
func (f Failure) text() string {
	switch f {
	case FailLocal:
		return "FailLocal"
	case FailOpen:
		return "FailOpen"
	case FailClosed:
		return "FailClosed"
	default:
		return fmt.Sprintf("Failure(%d)", f)
	}
}

const (
	defaultPrefix       = "wskit"
	defaultTimeout      = 100 * time.Millisecond
	defaultFallbackKeys = 1 << 16
	maxName             = 64
)

// withDefaults checks the options and fills in the defaults. It panics with
// what to change.
func (o Options) withDefaults(store Store) Options {
	_, local := store.(engine.LocalStore)
	if o.Name == "" {
		if !local {
			panic(`limit: a limiter over a shared store needs a name, which is the namespace of its keys: limit.New(store, policy, limit.Options{Name: "messages"})`)
		}
		o.Name = uniqueName()
	} else {
		mustBeName("Name", o.Name)
	}
	if p, ok := store.(interface{ Prefix() string }); ok && o.Prefix == "" {
		o.Prefix = p.Prefix()
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	} else {
		mustBeName("Prefix", o.Prefix)
	}
	if o.OnFailure > FailClosed {
		panic(fmt.Sprintf("limit: Options.OnFailure is %v; use FailLocal, FailOpen or FailClosed", o.OnFailure))
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.FallbackKeys < 0 {
		panic("limit: Options.FallbackKeys is negative; leave it 0 for the default of 65,536")
	}
	if o.FallbackKeys == 0 {
		o.FallbackKeys = defaultFallbackKeys
	}
	return o
}

// mustBeName panics unless s may be part of a key as it is.
func mustBeName(field, s string) {
	if len(s) > maxName {
		panic(fmt.Sprintf("limit: Options.%s has %d bytes; at most %d are allowed", field, len(s), maxName))
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == '-', c == '/':
		default:
			panic(fmt.Sprintf("limit: Options.%s is %q; use letters, digits, '.', '_', '-' and '/'", field, s))
		}
	}
}
