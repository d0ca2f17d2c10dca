package inbound

import "time"

// Limits is set for the connection of a client that follows its limits ($ws:limits).
type Limits interface {
	// Report takes the state of a limit after a message, or while the client asks for it.
	Report(Limit)
}

// Limit is the state of one limit for the messages of a type.
type Limit struct {
	// Source is the middleware that has the limit. It has at most one for a type, which is another
	// one when rules or the identity have changed.
	Source any
	Type   string
	// Key is the key of the state: messages of other types may share it. It is copied.
	Key []byte
	// Hidden says that the client is not shown the limit for this type. Then Source, Type and Key
	// alone are set, Key unless nothing is limited; where other types are shown the key, the
	// others are set, too.
	Hidden bool

	Name string
	// Cost is that of a message of the type, 0 if it depends on the message.
	Cost int64
	// Ceiling is the most that fits when nothing is used.
	Ceiling int64
	// Remaining is what fits now, at least; with a fraction where that is known.
	Remaining float64
	// FullAfter is how long until nothing is used.
	FullAfter time.Duration
	// Refill units come back in every Per; 0 if they come back in another way, at FullAfter at the
	// latest.
	Refill int64
	Per    time.Duration
}
