package pubsub_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wskit/wskit/pubsub"
)

func ExamplePosition() {
	seen := pubsub.Position{Epoch: 7, Offset: 3, Tag: 99}
	text := seen.String() // a client keeps it
	again, err := pubsub.ParsePosition(text)
	fmt.Println(text, again == seen, err)
	// Output: AAAAAAAAAAcAAABjAAAAAAAAAAM true <nil>
}

func ExampleHistory_Check() {
	fmt.Println(pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: time.Hour}.Check())
	fmt.Println(pubsub.History{Messages: 1000}.Check())
	// Output:
	// <nil>
	// pubsub: History{Messages: 1000, Bytes: 0, Age: 0s}; Messages and Bytes must be positive, and Age at least 1ms
}

// Each position has one text, and no other text is accepted.
func TestPositionText(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/= "
	for range 10_000 {
		p := pubsub.Position{Epoch: rand.Uint64()>>rand.IntN(64) | 1, Offset: 1 + rand.Uint64N(1<<53-1)>>rand.IntN(53), Tag: rand.Uint32() | 1}
		text := p.String()
		if again, err := pubsub.ParsePosition(text); err != nil || again != p {
			t.Fatalf("%+v becomes %q, which becomes %+v, %v", p, text, again, err)
		}
		b := []byte(text)
		b[rand.IntN(len(b))] = alphabet[rand.IntN(len(alphabet))]
		if other, err := pubsub.ParsePosition(string(b)); err == nil && other.String() != string(b) {
			t.Fatalf("%q is accepted as the position %q", b, other)
		}
	}
	for _, text := range []string{
		"", "AAAAAAAAAAAAAAAAAAAAAAAAAAA", // epoch 0
		pubsub.Position{Epoch: 1, Offset: 1}.String(), pubsub.Position{Epoch: 1, Tag: 1}.String(),
		pubsub.Position{Epoch: 1, Tag: 1, Offset: 1 << 53}.String(),
		pubsub.Position{Epoch: 1, Tag: 1, Offset: 1}.String() + "\n",
		"\n" + pubsub.Position{Epoch: 1, Tag: 1, Offset: 1}.String()[1:],
	} {
		if p, err := pubsub.ParsePosition(text); err == nil {
			t.Errorf("%q is accepted as %+v", text, p)
		}
	}
}
