package redis

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/leasecheck"
)

// PresenceOptions configure a [Presence]. The zero value works.
type PresenceOptions struct {
	// Prefix begins the names of all keys, so that several applications may share
	// a Redis. Presences with the same prefix share their topics. Letters, digits,
	// '.', '_', '-' and '/', 64 at most.
	//
	// Default: "wskit".
	Prefix string

	// ProcessTimeout is how long the members of a process stay in their topics after it has
	// been killed, at most, while Redis works. From 1 s to 10 min.
	//
	// Default: 15 s.
	ProcessTimeout time.Duration

	// Timeout is the longest that Join, Members and Watch wait for Redis.
	//
	// Default: 2 s.
	Timeout time.Duration

	// MaxMembers is how many members of a topic Members returns at most, and how many of each
	// process it reads. Which of more it returns is not defined.
	//
	// Default: 10,000.
	MaxMembers int

	// Logger gets a line, with the cause, when writing to Redis fails, and another when it
	// works again.
	//
	// Default: slog.Default().
	Logger *slog.Logger

	// OnOutage is called at the same times, for the component "presence". It is called by one goroutine, never under a
	// lock, so it may block; until it returns, only the latest change is kept. Its panics are logged.
	//
	// Default: none.
	OnOutage func(errors.Outage)
}

// PresenceStats are figures of a Presence: Topics and Members as they are now, the
// others since it was made.
type PresenceStats struct {
	// Topics is how many topics have members in this process.
	Topics int
	// Members is how many members those have in this process.
	Members int
	// Failed is how often writing to Redis has failed. It is tried again.
	Failed int64
	// Repaired is how often a topic was not in Redis as it had been written, and
	// was written anew: after Redis had lost it, or this process had been away
	// for too long.
	Repaired int64
	// Ignored is how many entries that Members met were not written by a
	// Presence.
	Ignored int64
}

func (o PresenceOptions) withDefaults() (PresenceOptions, error) {
	o.Prefix = cmp.Or(o.Prefix, "wskit")
	var err error
	if o.ProcessTimeout, err = leasecheck.Timeout("redis", "PresenceOptions", o.ProcessTimeout); err != nil {
		return o, err
	}
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.MaxMembers = cmp.Or(o.MaxMembers, 10_000)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Timeout < 0:
		return o, fmt.Errorf("redis: PresenceOptions.Timeout is %v; it must be positive (0 for 2s)", o.Timeout)
	case o.MaxMembers < 0:
		return o, fmt.Errorf("redis: PresenceOptions.MaxMembers is %d; it must be positive (0 for 10000)", o.MaxMembers)
	}
	return o, checkPrefix("PresenceOptions", o.Prefix)
}

// ttl is when Redis forgets what a process does not renew. Half of the ProcessTimeout, so that what follows, see
// [Presence], takes no longer than the other half.
func (p *presence) ttl() time.Duration { return p.opts.ProcessTimeout / 2 }
