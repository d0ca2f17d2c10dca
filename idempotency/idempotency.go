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

// Store keeps claims and answers, in this process or across many. All methods may be
// called from any goroutine, and a context is for the call it is given to alone. A call may
// be repeated after an error whose outcome is unknown: what was done already is done once.
//
// idempotencytest.Run checks all of this.
type Store interface {
	// Begin claims a key for an execution, for the time of the lease, or says what is
	// known of the key. The answer is that of [Answered] and belongs to the caller. A
	// second Begin of the same execution renews its claim.
	//
	// It fails with [ErrFull] when there is no room for another key.
	Begin(ctx context.Context, c Claim, lease time.Duration) (state State, answer []byte, err error)

	// Renew makes a claim last for another lease from now on. A claim whose lease was
	// over is claimed again if no other execution has it. Otherwise it fails with [ErrLost].
	Renew(ctx context.Context, c Claim, lease time.Duration) error

	// Finish ends a claim and keeps the answer, for the time given. A claim whose lease was
	// over is finished as well if no other execution has the key. Otherwise Finish fails
	// with [ErrLost], and the answer is not kept.
	Finish(ctx context.Context, c Claim, answer []byte, keep time.Duration) error

	// Release ends a claim and keeps nothing: the next execution claims the key. If
	// the claim is not the execution's, it does nothing.
	Release(ctx context.Context, c Claim) error
}

// Claim is one execution's interest in a key. Each field has 1 to [MaxField] bytes of
// any value.
type Claim struct {
	// Subject is the owner of the key. Keys of different subjects are different, and a
	// store bounds the keys of each subject apart.
	Subject string
	// Key names the message.
	Key string
	// Digest stands for the message's content. Under one key it is always the same.
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

// State is what a Store knows of a key.
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
	// ErrFull is returned when a store has no room for another key.
	ErrFull = errors.New("idempotency: no room for another key")
)
