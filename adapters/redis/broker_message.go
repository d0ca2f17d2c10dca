package redis

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wskit/wskit/pubsub"
)

// A message is published as: the byte 1, which is the version of this layout; the
// overflow, one byte; key and except, each after its length as a uvarint; and the
// frame, which is the rest. The topic is the channel's. A message that is appended to a log is the
// byte 3, its tag in four bytes, and the same from the overflow on.
//
// With BrokerOptions.Keys it is the byte 2, the HMAC-SHA256 of what follows behind the
// channel's name and its length as a uvarint, and then what would be published without.
//
// Several messages of a topic are published as one: the byte 4, and then each message after its
// length as a uvarint. Appended messages always are, with another head, which the script of logs makes:
// the byte 5, and in decimal the epoch, the offset of the first message and the tag of the message
// before it, with spaces between, and a line feed behind.
const (
	layout         = 1
	sealedLayout   = 2
	loggedLayout   = 3
	severalLayout  = 4
	appendedLayout = 5
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

// appendPlain appends the plain layout of a message, which is that of a log if it has a tag.
func appendPlain(b []byte, m pubsub.Message) []byte {
	b = slices.Grow(b, 6+2*binary.MaxVarintLen32+len(m.Key)+len(m.Except)+len(m.Frame))
	if tag := m.Position.Tag; tag == 0 {
		b = append(b, layout)
	} else {
		b = binary.BigEndian.AppendUint32(append(b, loggedLayout), tag)
	}
	b = append(b, m.Overflow)
	b = append(binary.AppendUvarint(b, uint64(len(m.Key))), m.Key...)
	b = append(binary.AppendUvarint(b, uint64(len(m.Except))), m.Except...)
	return append(b, m.Frame...)
}

// decode is what appendPlain made, or not ok. The frame, which is the end of the payload, is not in the message yet.
// Of the position it has the tag.
func decode(topic, payload string, maxFrame int) (m pubsub.Message, frame string, ok bool) {
	switch {
	case len(payload) >= 2 && payload[0] == layout:
		payload = payload[1:]
	case len(payload) >= 6 && payload[0] == loggedLayout:
		m.Position.Tag = binary.BigEndian.Uint32([]byte(payload[1:5]))
		if payload = payload[5:]; m.Position.Tag == 0 {
			return m, "", false
		}
	default:
		return m, "", false
	}
	m.Topic, m.Overflow = topic, payload[0]
	rest := payload[1:]
	if m.Key, rest, ok = cutLabel(rest); !ok {
		return m, "", false
	}
	if m.Except, rest, ok = cutLabel(rest); !ok || len(rest) > maxFrame {
		return m, "", false
	}
	return m, rest, true
}

// lengthBytes is what a length takes at most.
const lengthBytes = binary.MaxVarintLen64

// appendWithLength appends a published message to others.
func appendWithLength(b, payload []byte) []byte {
	return append(binary.AppendUvarint(slices.Grow(b, lengthBytes+len(payload)), uint64(len(payload))), payload...)
}

func cutLength(s string) (payload, rest string, ok bool) {
	return cut(s, lengthBytes, math.MaxUint64)
}

// cut cuts off a string behind its length, which takes so many bytes and has such a value at most.
func cut(s string, width int, most uint64) (one, rest string, ok bool) {
	n, width := binary.Uvarint([]byte(s[:min(len(s), width)]))
	if width <= 0 || n > most || n > uint64(len(s)-width) {
		return "", "", false
	}
	s = s[width:]
	return s[:n], s[n:], true
}

// A reader takes apart what was published on a channel.
type reader struct {
	seal     seal
	channel  string
	topic    string
	maxFrame int
}

// each calls yield for each message. It ends at the first that is not one, and returns false.
func (r *reader) each(payload string, yield func(pubsub.Message)) bool {
	var next pubsub.Position
	var previous uint32
	var copied frames
	switch {
	case payload == "":
		return false
	case payload[0] == severalLayout:
		payload = payload[1:]
	case payload[0] == appendedLayout:
		var ok bool
		head, rest, _ := strings.Cut(payload[1:], "\n")
		if next, ok = parsePlace(head); !ok {
			return false
		}
		previous, next.Tag, payload = next.Tag, 0, rest
	default:
		m, frame, ok := r.one(payload)
		if ok = ok && m.Position.Tag == 0; ok {
			m.Frame = []byte(frame)
			yield(m)
		}
		return ok
	}
	copied.of = payload
	for payload != "" {
		one, rest, ok := cutLength(payload)
		if !ok {
			return false
		}
		m, frame, ok := r.one(one)
		if !ok || (m.Position.Tag == 0) != (next.Epoch == 0) {
			return false
		}
		m.Frame = copied.before(rest, frame)
		if next.Epoch != 0 {
			m.Previous, previous = previous, m.Position.Tag
			m.Position.Epoch, m.Position.Offset = next.Epoch, next.Offset
			next.Offset++
		}
		yield(m)
		payload = rest
	}
	return true
}

// frames copies frames out of a text that has several: all at once, so that a frame which is kept keeps
// the whole, unless that is large.
type frames struct {
	of     string
	copied []byte
}

// sharedAtMost is the size of the largest text that is copied at once.
const sharedAtMost = 32 << 10

// before copies the frame that the text has directly before its rest.
func (f *frames) before(rest, frame string) []byte {
	if len(f.of) > sharedAtMost {
		return []byte(frame)
	}
	if f.copied == nil {
		f.copied = []byte(f.of)
	}
	end := len(f.of) - len(rest)
	return f.copied[end-len(frame) : end : end]
}

// one reads a message, of whose position only the tag is known, and its frame, which ends the payload.
func (r *reader) one(payload string) (pubsub.Message, string, bool) {
	plain, ok := r.seal.open(r.channel, payload)
	if !ok {
		return pubsub.Message{}, "", false
	}
	return decode(r.topic, plain, r.maxFrame)
}

// parsePlace reads "epoch offset tag".
func parsePlace(text string) (p pubsub.Position, ok bool) {
	epoch, rest, _ := strings.Cut(text, " ")
	offset, tag, _ := strings.Cut(rest, " ")
	return parsePosition(epoch, offset, tag)
}

func parsePosition(epoch, offset, tag string) (p pubsub.Position, ok bool) {
	var errs [3]error
	var tag64 uint64
	p.Epoch, errs[0] = strconv.ParseUint(epoch, 10, 64)
	p.Offset, errs[1] = strconv.ParseUint(offset, 10, 53)
	tag64, errs[2] = strconv.ParseUint(tag, 10, 32)
	p.Tag = uint32(tag64)
	return p, errs == [3]error{}
}

func cutLabel(s string) (label, rest string, ok bool) {
	return cut(s, binary.MaxVarintLen32, maxLabel)
}
