package router

import (
	"testing"

	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router/internal/frame"
)

type flatEvent struct {
	Room string `json:"room"`
	Text string `json:"text"`
	N    int    `json:"n"`
}

func encodeEvent(tb testing.TB, payload any) {
	out := frame.New()
	if err := appendEvent(out, "chat.message", payload, nil); err != nil {
		tb.Fatal(err)
	}
	out.Free()
}

func TestEventOfAFlatPayloadAllocatesNothing(t *testing.T) {
	var payload any = flatEvent{"lobby", "hello, world", 12}
	if n := testing.AllocsPerRun(2000, func() { encodeEvent(t, payload) }); n != 0 && !race.Enabled {
		t.Errorf("an event allocates %v times", n)
	}
}

// BenchmarkEvent encodes events whose payload is flat, and others.
func BenchmarkEvent(b *testing.B) {
	for name, payload := range map[string]any{
		"flat":  flatEvent{"lobby", "hello, world", 12},
		"other": struct{ Of []flatEvent }{[]flatEvent{{"lobby", "hello, world", 12}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encodeEvent(b, payload)
			}
		})
	}
}
