package router

import (
	"cmp"
	"fmt"
	"time"

	"github.com/wskit/wskit/router/internal/overload"
)

// OverloadOptions refuse messages while this process cannot keep up, those of low priority first,
// so that the others are still answered in time.
//
// The router measures ten times a second how long work waits for a CPU. If even the shortest wait
// in 100 ms is longer than Target, more comes than is completed. Then as many messages are admitted as
// are completed, by their priority: RouteOptions.Priority, and that of the user's tier. Of the
// lowest priority of which some are admitted, each user gets an equal share, and each
// address that of all its clients without an identity.
//
// A message is refused before its payload is decoded, as UNAVAILABLE with a wait, which grows with
// the time that the overload has lasted. Limits have charged it by then. Messages of the protocol
// are always handled, such as heartbeats, aborts, answers to questions and $ws:resume. New
// connections count as messages of priority 0 of their address: they are refused with 503.
// Stats.Overload.Shed counts what was refused.
//
// It costs a hundred short wake-ups a second while there are connections, and 28 KiB. A
// message costs nothing while the process keeps up.
type OverloadOptions struct {
	// Enabled switches it on.
	//
	// Default: off; everything is admitted, and all clients wait.
	Enabled bool

	// Target is the longest wait for a CPU at which no message is refused. While messages are
	// refused, the others wait for about this time.
	//
	// Default: 20 ms. At least 1 ms.
	Target time.Duration

	// MaxMemory is the memory in bytes that the process may need: what the garbage collector has found in use at
	// its last run, stacks, and what the runtime needs in addition. From nine tenths of it, a part of the messages is
	// refused, which grows to nine tenths of them at MaxMemory.
	//
	// Default: GOMEMLIMIT; if that is not set, memory is not measured. Negative: memory is not
	// measured.
	MaxMemory int64

	// Busy reports whether something that handlers need cannot keep up, such as a database of which all
	// connections are in use and handlers wait for one, or a store whose limiter is
	// degraded (limit.Stats.Degraded). While it does, fewer messages are admitted at each
	// look, down to a tenth. It is called ten times a second by one goroutine, and must not wait.
	//
	// Default: none.
	Busy func() bool

	// Tiers adds to the priority of messages from users of a tier (ingress.Identity.Tier), from
	// -3 to 3.
	//
	// Default: tiers make no difference.
	Tiers map[string]int
}

// Priorities are from -maxPriority to maxPriority.
const maxPriority = overload.Levels / 2

func (o OverloadOptions) withDefaults() (OverloadOptions, error) {
	o.Target = cmp.Or(o.Target, 20*time.Millisecond)
	if o.Target < time.Millisecond {
		return o, fmt.Errorf("router: Options.Overload.Target is %v; it must be at least 1ms (0 for 20ms)", o.Target)
	}
	for tier, p := range o.Tiers {
		if !validPriority(p) {
			return o, fmt.Errorf("router: Options.Overload.Tiers[%q] is %d; a priority is from %d to %d", tier, p, -maxPriority, maxPriority)
		}
	}
	return o, nil
}

func validPriority(p int) bool { return p >= -maxPriority && p <= maxPriority }
