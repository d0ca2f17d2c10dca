package redis

import (
	"encoding/binary"

	"github.com/wskit/wskit/pubsub"
)

// A message is published as: the byte 1, which is the version of this layout; the
// overflow, one byte; key and except, each after its length as a uvarint; and the
// frame, which is the rest. The topic is the channel's.
const layout = 1

// maxLabel bounds key and except, in bytes.
const maxLabel = 64 << 10

func encode(m pubsub.Message) []byte {
	b := make([]byte, 0, 2+2*binary.MaxVarintLen32+len(m.Key)+len(m.Except)+len(m.Frame))
	b = append(b, layout, m.Overflow)
	b = append(binary.AppendUvarint(b, uint64(len(m.Key))), m.Key...)
	b = append(binary.AppendUvarint(b, uint64(len(m.Except))), m.Except...)
	return append(b, m.Frame...)
}

// decode is what encode made, or not ok.
func decode(topic, payload string, maxFrame int) (m pubsub.Message, ok bool) {
	if len(payload) < 2 || payload[0] != layout {
		return m, false
	}
	m.Topic, m.Overflow = topic, payload[1]
	rest := payload[2:]
	if m.Key, rest, ok = cutLabel(rest); !ok {
		return m, false
	}
	if m.Except, rest, ok = cutLabel(rest); !ok || len(rest) > maxFrame {
		return m, false
	}
	m.Frame = []byte(rest)
	return m, true
}

func cutLabel(s string) (label, rest string, ok bool) {
	head := []byte(s[:min(len(s), binary.MaxVarintLen32)])
	n, width := binary.Uvarint(head)
	if width <= 0 || n > maxLabel || n > uint64(len(s)-width) {
		return "", "", false
	}
	s = s[width:]
	return s[:n], s[n:], true
}
