package hub

import (
	"bytes"
	"slices"
	"time"

	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/wire"
)

// The frame of a message of a topic with history begins with its meta, and that with the topic:
//
//	{"meta":{"topic":"room:a"},"type":"chat.message","payload":…}
//
// So it is known, without looking, where its position goes, which the publisher does not know.

// MetaOpen begins the frame of an event that has members in meta, behind the brace.
const MetaOpen = `"meta":{`

// TopicPrefix is what the frames of a topic with history begin with.
func TopicPrefix(topic string) []byte {
	return append([]byte(`{"meta":{"topic":`), frame.Quote(topic)...)
}

// Appendable makes the frame for the log of an event.
func Appendable(topic string, event []byte) []byte {
	b := TopicPrefix(topic)
	if members, ok := bytes.CutPrefix(event, []byte("{"+MetaOpen)); ok {
		return append(append(b, ','), members...)
	}
	const open = len(`{`)
	b = append(b, `},`...)
	return append(b, event[open:]...)
}

// PositionSize is what passAt adds to a frame.
const PositionSize = len(`,"pos":""`) + 27

// frameOverhead is how many bytes Positioned adds to a message.
const frameOverhead = wire.HeaderRoom + PositionSize

// Positioned makes the message that subscribers get of one of the log. Its frame is in b, if there is room for it.
func (h *Hub) Positioned(b []byte, p *envelope.Peeker, prefix []byte, m *pubsub.Message) (frame.Shared, error) {
	rest, ok := bytes.CutPrefix(m.Frame, prefix)
	if !ok {
		return frame.Shared{}, errPrefix
	}
	b = append(slices.Grow(b[:0], len(m.Frame)+frameOverhead), frame.HeaderRoom[:]...)
	b = append(append(append(b, prefix...), `,"pos":"`...), m.Position.String()...)
	b = append(append(b, '"'), rest...)
	if err := h.check(p, b[wire.HeaderRoom:], typeRedacted); err != nil {
		return frame.Shared{}, err
	}
	return frame.InPlace(b), nil
}

// RedactedEvent makes the event that takes back a message of a topic: in the log it is in the place of the message, and
// at the end. replacement is JSON, or nil.
func RedactedEvent(topic, pos string, replacement []byte) []byte {
	b := topicFrame(typeRedacted, topic)
	defer b.Free()
	b.WriteString(`,"pos":"` + pos + `"`)
	if replacement != nil {
		b.WriteString(`,"replacement":`)
		b.Write(replacement)
	}
	b.WriteString("}}")
	return bytes.Clone(b.Bytes()[wire.HeaderRoom:])
}

// redacts reports whether a frame of the log takes back a message, as far as it is one of ours.
func (f *followed) redacts(frame []byte) bool {
	rest, ok := bytes.CutPrefix(frame, f.prefix)
	return ok && bytes.HasPrefix(rest, redactedType)
}

var redactedType = []byte(`},"type":"` + typeRedacted + `"`)

// topicFrame begins a frame of the protocol's own about a topic.
func topicFrame(typ, topic string) *frame.Buffer {
	b := frame.New()
	b.WriteString(`{"type":"` + typ + `","payload":{"topic":`)
	b.Text(topic)
	return b
}

// resetFrame makes a $ws:reset.
func resetFrame(topic string, reason pubsub.Loss, at pubsub.Position) []byte {
	b := topicFrame(typeReset, topic)
	defer b.Free()
	b.WriteString(`,"reason":`)
	b.Text(string(reason))
	b.WriteString(`,"pos":"` + at.String() + `"}}`)
	return bytes.Clone(b.Bytes()[wire.HeaderRoom:])
}

// welcome announces to a member where it begins. The topic is locked, so that what is published
// comes behind it.
func (m *Member) welcome() {
	f := m.topic.subscription.log
	_ = m.announce(f.at, f.joined[m], m.until(), false) // or the connection is being closed
}

// announce sends $ws:subscribed. back says that the client goes on at a position that it had before.
func (m *Member) announce(at pubsub.Position, joined []byte, until time.Time, back bool) error {
	b := topicFrame(typeSubscribed, m.topic.name)
	defer b.Free()
	b.WriteString(`,"pos":"` + at.String() + `","ticket":"` + m.peer.Host.Ticket(m.topic.name, joined, m.graceTime(), until) + `"`)
	if back {
		b.WriteString(`,"resumed":true`)
	}
	b.WriteString("}}")
	return m.peer.Queue(b)
}

// Reasons in $ws:unsubscribed.
const (
	reasonEnded   = "ended"   // Terms.Until
	reasonRevoked = "revoked" // Peer.Revoke
)

// dismiss sends $ws:unsubscribed, so that the client does not resume the topic. reason may be empty.
func (m *Member) dismiss(reason string) {
	b := topicFrame(typeUnsubscribed, m.topic.name)
	defer b.Free()
	if reason != "" {
		b.WriteString(`,"reason":"` + reason + `"`)
	}
	b.WriteString("}}")
	if m.peer.Queue(b) == nil { // or the connection is being closed
		m.peer.flushUnlessBatched()
	}
}
