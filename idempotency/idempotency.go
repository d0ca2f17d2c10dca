// Package idempotency is the contract between a router and what keeps the answers of
// messages that carry an idempotency key: a message that is sent again gets the answer of
// the first, and is not handled a second time.
//
// A [Store] keeps one entry for each key. It begins as a claim: one execution handles the
// message, and all others wait. The claim ends when the answer is kept, when it is
// released, or when its lease is over because its process was killed: then the next
// execution claims the key.
package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store keeps claims and answers, in this process or across many. All methods may be called from
// any goroutine, and a context is for the call it is given to alone. A call may be repeated after
// an error whose outcome is unknown: the result is that of one call.
//
// idempotencytest.Run checks all of this.
type Store interface {
	// Begin claims a key for an execution, for the time of the lease, or returns the state of the
	// key. The answer is that of [Answered] and belongs to the caller. A second Begin of the same
	// execution renews its claim.
	//
	// It fails with [ErrFull] when there is no room for another key of the subject. One subject never
	// takes all the room there is: keys of others are still claimed.
	Begin(ctx context.Context, c Claim, lease time.Duration) (state State, answer []byte, err error)

	// Renew makes a claim last for another lease from now on. A claim whose lease was
	// over is claimed again if no other execution has it. Otherwise it fails with [ErrLost].
	Renew(ctx context.Context, c Claim, lease time.Duration) error

	// Finish ends a claim and keeps the answer, for the time given. A claim whose lease was
	// over is finished as well if no other execution has the key. Otherwise Finish fails
	// with [ErrLost], and the answer is not kept.
	//
	// It fails with [ErrFull] when there is no room for the answer, which is bounded apart from that for
	// keys, and for each subject like that. The claim goes on, and an answer of a single byte always
	// has room.
	Finish(ctx context.Context, c Claim, answer []byte, keep time.Duration) error

	// Release ends a claim and keeps nothing: the next execution claims the key. If
	// the claim is not the execution's, it does nothing.
	Release(ctx context.Context, c Claim) error
}

// Claim is a key with the execution that handles its message. Each field has 1 to [MaxField] bytes
// of any value.
type Claim struct {
	// Subject is the owner of the key. Keys of different subjects are different, and a store bounds
	// the keys and answers of each subject separately: a router uses the user, and for all clients
	// of one address that are no user's, the address.
	Subject string
	// Key names the message.
	Key string
	// Digest is a hash of the message's content. It detects a client that uses one key for two
	// contents.
	Digest string
	// Execution names the attempt to handle the message. No two have the same.
	Execution string
}

// MaxField bounds each field of a Claim, in bytes.
const MaxField = 128

// Check returns an error for a Claim that no Store takes: one with a field that is empty
// or has more than [MaxField] bytes.
func (c Claim) Check() error {
	for _, f := range []struct{ name, value string }{
		{"Subject", c.Subject}, {"Key", c.Key}, {"Digest", c.Digest}, {"Execution", c.Execution},
	} {
		if n := len(f.value); n == 0 || n > MaxField {
			return fmt.Errorf("idempotency: Claim.%s has %d bytes; it must have 1 to %d", f.name, n, MaxField)
		}
	}
	return nil
}

// State is what a Store has stored for a key.
type State uint8

const (
	// Claimed means that the caller is to handle the message.
	Claimed State = 1 + iota
	// Running means that another execution handles it.
	Running
	// Answered means that it was handled, and the answer is known.
	Answered
	// Mismatch means that the key belongs to a message with another Digest.
	Mismatch
)

var (
	// ErrLost is returned for a claim that another execution has taken over.
	ErrLost = errors.New("idempotency: another execution has the key")
	// ErrFull is returned when a store has no room for another key of a subject, or for an answer.
	ErrFull = errors.New("idempotency: no room for another key or answer")
)
