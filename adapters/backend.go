// Package adapters says what a router keeps outside of itself: limits, topics, presence and the answers of idempotent
// messages. memory.New keeps it in the process, redis.Open on Redis, for several processes.
package adapters

import (
	"context"
	"time"

	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// Backend is where a router and its limits keep what they share. The zero value is the memory of the process, and so is
// each part that is nil. A part can be replaced: limits on one server and topics on another.
type Backend struct {
	// Limits has the state of limits: limit.New(b.Limits, policy, …). It is nil in the zero Backend:
	// memory.New().Limits is one.
	Limits limit.Store

	// Broker delivers what is published to other processes. Topics with a history need one that is a pubsub.Log.
	//
	// Default: topics stay in the process.
	Broker pubsub.Broker

	// Presence lists the members of topics.
	//
	// Default: those of this process.
	Presence pubsub.Presence

	// Idempotency keeps the answers of messages with an idempotency key, so that they are handled once.
	//
	// Default: in this process, see memory.IdempotencyOptions.
	Idempotency idempotency.Store

	// Secret returns at least 32 random bytes that are the same in all processes and stay the same, for each name. It
	// may be called concurrently. The tickets of Router.History are signed with it, so that a client can resume on
	// another process.
	//
	// Default: random ones of this process.
	Secret func(ctx context.Context, name string) ([]byte, error)

	// Check returns nil while decisions, subscriptions and writes work. Router.Ready asks it. It may be called
	// concurrently.
	//
	// Default: always nil.
	Check func(context.Context) error

	// Close closes all parts, in the right order, when the router has been shut down. Router.Serve calls it.
	//
	// Default: nothing is closed.
	Close func() error

	// ProcessTimeout is how long a process that was killed, or is cut off from the backend, counts as running: its
	// places of a gate and of concurrency limits, its members of topics, the messages with an idempotency key that it
	// was handling, and its connections for Target. All processes need the same one. From 1 s to 10 min.
	//
	// Default: 15 s.
	ProcessTimeout time.Duration

	// Shared says that other processes use it, too.
	Shared bool
}
