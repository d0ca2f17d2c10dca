package router

import (
	"bytes"
	"slices"

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

// ownMeta begins the frame of an event with own members of meta, behind the brace.
const ownMeta = `"meta":{`

// topicPrefix is what the frames of a topic with history begin with.
func topicPrefix(topic string) []byte {
	return append([]byte(`{"meta":{"topic":`), frame.Quote(topic)...)
}

// appendable makes the frame for the log of an event.
func appendable(topic string, event []byte) []byte {
	b := topicPrefix(topic)
	if own, ok := bytes.CutPrefix(event, []byte("{"+ownMeta)); ok {
		return append(append(b, ','), own...)
	}
	const open = len(`{`)
	b = append(b, `},`...)
	return append(b, event[open:]...)
}

// positionSize is what passAt adds to a frame.
const positionSize = len(`,"pos":""`) + 27

// frameOverhead is how many bytes positioned adds to a message.
const frameOverhead = wire.HeaderRoom + positionSize

// positioned makes the message that subscribers get of one of the log. Its frame is in b, if there is room for it.
func (r *Router) positioned(b []byte, p *envelope.Peeker, prefix []byte, m *pubsub.Message) (frame.Shared, error) {
	rest, ok := bytes.CutPrefix(m.Frame, prefix)
	if !ok {
		return frame.Shared{}, errPrefix
	}
	b = append(slices.Grow(b[:0], len(m.Frame)+frameOverhead), frame.HeaderRoom[:]...)
	b = append(append(append(b, prefix...), `,"pos":"`...), m.Position.String()...)
	b = append(append(b, '"'), rest...)
	if err := r.errForeign(p, b[wire.HeaderRoom:]); err != nil {
		return frame.Shared{}, err
	}
	return frame.InPlace(b), nil
}

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
func (m *member) welcome() {
	f := m.topic.subscription.log
	_ = m.announce(f.at, f.joined[m]) // or the connection is being closed
}

// announce sends $ws:subscribed.
func (m *member) announce(at pubsub.Position, joined []byte) error {
	b := topicFrame(typeSubscribed, m.topic.name)
	defer b.Free()
	b.WriteString(`,"pos":"` + at.String() + `","ticket":"` + m.conn.router.tickets.issue(m.conn, m.topic.name, joined) + `"}}`)
	return m.conn.enqueue(b)
}

// dismiss sends $ws:unsubscribed, so that the client does not resume the topic.
func (m *member) dismiss() {
	b := topicFrame(typeUnsubscribed, m.topic.name)
	defer b.Free()
	b.WriteString("}}")
	if m.conn.enqueue(b) == nil { // or the connection is being closed
		m.conn.flushUnlessBatched()
	}
}
