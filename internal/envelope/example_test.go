package envelope_test

import (
	"fmt"

	"github.com/wskit/wskit/internal/envelope"
)

func ExamplePeeker() {
	var p envelope.Peeker
	e, err := p.Peek([]byte(`{"type":"room.join","meta":{"correlationId":"02b7","timeoutMs":5000},"payload":{"room":"a"}}`))
	fmt.Printf("%s %s %d %s %v\n", e.Type, e.CorrelationID, e.TimeoutMs, e.Payload, err)

	// Two types in one frame: whichever is looked at, it could be the other.
	_, err = p.Peek([]byte(`{"type":"chat.read","ty\u0070e":"chat.delete"}`))
	fmt.Println(err)
	// Output:
	// room.join "02b7" 5000 {"room":"a"} <nil>
	// INVALID_ARGUMENT: frame is not valid JSON, or a name in it repeats
}
