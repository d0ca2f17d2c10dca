package errors_test

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/wskit/wskit/errors"
)

// A handler returns an error with a message for the client, and keeps the cause
// for the log.
func Example() {
	find := func(room string) error {
		switch room {
		case "attic":
			return errors.NotFound.Errorf("no room %q", room)
		case "cellar":
			return errors.Unavailable.Wrap(io.ErrUnexpectedEOF, "rooms cannot be read now")
		default:
			return fmt.Errorf("select * from rooms: %w", io.ErrClosedPipe)
		}
	}
	for _, room := range []string{"attic", "cellar", "hall"} {
		e := errors.From(find(room))
		fmt.Printf("client: %s, %s, retryable %v\n", e.Code, e.Message, e.Retryable())
		fmt.Println("log:   ", e)
	}
	// Output:
	// client: NOT_FOUND, no room "attic", retryable false
	// log:    NOT_FOUND: no room "attic"
	// client: UNAVAILABLE, rooms cannot be read now, retryable true
	// log:    UNAVAILABLE: rooms cannot be read now: unexpected EOF
	// client: INTERNAL, internal error, retryable false
	// log:    INTERNAL: internal error: select * from rooms: io: read/write on closed pipe
}

func ExampleCode() {
	const RoomFull errors.Code = "ROOM_FULL" // an application's own
	err := RoomFull.New("ten is the most")
	fmt.Println(err.Code, err.Retryable())
	// Output: ROOM_FULL false
}

func ExampleCode_New() {
	fmt.Println(errors.PermissionDenied.New("only members may write"))
	// Output: PERMISSION_DENIED: only members may write
}

func ExampleCode_Errorf() {
	err := errors.InvalidArgument.Errorf("seat %d of %d", 12, 10)
	fmt.Println(err.Message)

	// The operand of %w is the cause, and part of what the client reads.
	err = errors.Aborted.Errorf("lost the race: %w", io.ErrNoProgress)
	fmt.Println(err.Message, errors.Is(err, io.ErrNoProgress))
	// Output:
	// seat 12 of 10
	// lost the race: multiple Read calls return no data or error true
}

func ExampleCode_Wrap() {
	err := errors.Unavailable.Wrap(io.ErrUnexpectedEOF, "try again later")
	fmt.Println("client:", err.Message)
	fmt.Println("log:   ", err)
	// Output:
	// client: try again later
	// log:    UNAVAILABLE: try again later: unexpected EOF
}

func ExampleError_WithDetails() {
	errFull := errors.FailedPrecondition.New("room is full")
	err := errFull.WithDetails(map[string]int{"seats": 10})
	fmt.Println(err.Details, errFull.Details)
	// Output: map[seats:10] <nil>
}

func ExampleError_WithRetryAfter() {
	err := errors.Internal.New("the index is being built").WithRetryAfter(2 * time.Second)
	fmt.Println(err.Retryable(), err.RetryAfter)
	// Output: true 2s
}

func ExampleError_Retryable() {
	err := errors.Unavailable.New("gone for good")
	err.NoRetry = true
	fmt.Println(err.Retryable())
	// Output: false
}

func ExampleFrom() {
	fmt.Println(errors.From(context.DeadlineExceeded).Code)
	fmt.Println(errors.From(&errors.LimitExceeded{Kind: errors.LimitRate}).Code)
	fmt.Println(errors.From(io.EOF).Message)
	// Output:
	// DEADLINE_EXCEEDED
	// RESOURCE_EXHAUSTED
	// internal error
}

func ExampleCodeOf() {
	err := fmt.Errorf("joining: %w", errors.NotFound.New("no such room"))
	fmt.Println(errors.CodeOf(err), errors.CodeOf(io.EOF), errors.CodeOf(nil) == "")
	// Output: NOT_FOUND INTERNAL true
}

func ExampleLimitExceeded() {
	wait := &errors.LimitExceeded{
		Kind: errors.LimitRate, Observed: 5, Limit: 100, RetryAfter: 249_500 * time.Microsecond,
	}
	fmt.Println(wait.Code(), errors.From(wait).Retryable(), errors.From(wait).RetryAfter)

	// A cost above the capacity fits at no time.
	never := &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 500, Limit: 100, Never: true}
	fmt.Println(never.Code(), errors.From(never).Retryable())
	// Output:
	// RESOURCE_EXHAUSTED true 249.5ms
	// FAILED_PRECONDITION false
}

func ExampleCloseCode_Valid() {
	// 1006 stands for a connection that was lost; no frame may hold it.
	fmt.Println(errors.CloseTryAgainLater.Valid(), errors.CloseCode(1006).Valid())
	// Output: true false
}

func ExampleAsType() {
	err := fmt.Errorf("sending: %w", &errors.LimitExceeded{Kind: errors.LimitInFlight, Limit: 16})
	if l, ok := errors.AsType[*errors.LimitExceeded](err); ok {
		fmt.Println(l.Kind, l.Limit)
	}
	// Output: in_flight 16
}

func ExampleNew() {
	err := errors.New("without a code") // the standard library's
	fmt.Println(errors.CodeOf(err))
	// Output: INTERNAL
}

// A file that needs codes needs no second errors package.
func ExampleJoin() {
	err := errors.Join(errors.New("saving"), errors.Unavailable.New("try again later"))
	fmt.Println(errors.CodeOf(err), errors.Is(err, io.EOF))
	// Output: UNAVAILABLE false
}
