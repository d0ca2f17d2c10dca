package redis

import (
	"testing"

	"github.com/wskit/wskit/pubsub"
)

// FuzzMessage takes any payload: it is refused, or it is a message that is encoded
// and read again as the same.
func FuzzMessage(f *testing.F) {
	f.Add("")
	f.Add("\x01\x00\x00\x00")
	f.Add(string(appendPlain(nil, pubsub.Message{Overflow: 3, Key: "k", Except: "e", Frame: []byte("f")})))
	f.Add("\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, payload string) {
		m, frame, ok := decode("topic", payload, 1<<10)
		if !ok {
			return
		}
		m.Frame = []byte(frame)
		if len(m.Frame) > 1<<10 || len(m.Key) > maxLabel || len(m.Except) > maxLabel {
			t.Fatalf("%d bytes of frame, %d of key, %d of except", len(m.Frame), len(m.Key), len(m.Except))
		}
		again, frame, ok := decode("topic", string(appendPlain(nil, m)), 1<<10)
		if !ok || again.Overflow != m.Overflow || again.Key != m.Key || again.Except != m.Except || frame != string(m.Frame) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

func TestChannelsOfDifferentTopicsDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, topic := range []string{"a", "{a}", "{a", "a}", "%7Ba%7D", "%257Ba", "%", "%25", "{}", "}{", "a:b", "a}:topic:{b"} {
		for _, kind := range []string{"topic", "presence"} {
			k := key("wskit", kind, topic)
			if other, ok := seen[k]; ok {
				t.Errorf("%q and %q have the key %q", topic, other, k)
			}
			seen[k] = topic
		}
	}
}
