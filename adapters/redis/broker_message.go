package redis

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"

	"github.com/wskit/wskit/pubsub"
)

// A message is published as: the byte 1, which is the version of this layout; the
// overflow, one byte; key and except, each after its length as a uvarint; and the
// frame, which is the rest. The topic is the channel's.
//
// With BrokerOptions.Keys it is the byte 2, the HMAC-SHA256 of what follows behind the
// channel's name and its length as a uvarint, and then what would be published without.
const (
	layout       = 1
	sealedLayout = 2
)

// maxLabel bounds key and except, in bytes.
const maxLabel = 64 << 10

// A seal is what a message is authenticated by; none without keys.
type seal [][]byte

// sum authenticates the plain layout of a message on a channel.
func sum(key []byte, channel string, plain string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(channel))))
	_, _ = io.WriteString(h, channel)
	_, _ = io.WriteString(h, plain)
	return h.Sum(nil)
}

// close makes what is published of the plain layout.
func (s seal) close(channel string, plain []byte) []byte {
	if len(s) == 0 {
		return plain
	}
	return append(append([]byte{sealedLayout}, sum(s[0], channel, string(plain))...), plain...)
}

// open returns the plain layout of what was published, or not ok when it was made
// without the key.
func (s seal) open(channel, payload string) (plain string, ok bool) {
	if len(s) == 0 {
		return payload, true
	}
	if len(payload) < 1+sha256.Size || payload[0] != sealedLayout {
		return "", false
	}
	given, plain := []byte(payload[1:1+sha256.Size]), payload[1+sha256.Size:]
	for _, key := range s {
		ok = hmac.Equal(given, sum(key, channel, plain)) || ok
	}
	return plain, ok
}

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
