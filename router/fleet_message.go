package router

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// Kinds of messages between processes.
const (
	kindAlive  = "alive"  // to all: the process is there
	kindLeft   = "left"   // to all: the process ends, and has no connections
	kindQuery  = "query"  // to all or to one
	kindAnswer = "answer" // to the process that has sent the query
	kindSend   = "send"   // to one: an event for a connection follows, behind a line feed
)

// What a query is for.
const (
	doCount = "count"
	doList  = "list"
	doClose = "close"
)

// fleetMessage is a message between processes.
type fleetMessage struct {
	Kind    string `json:"kind"`
	From    string `json:"from"`
	Timeout int64  `json:"timeoutMs,omitzero"` // of kindAlive

	Query  uint64           `json:"query,omitzero"`
	Do     string           `json:"do,omitzero"`
	Topic  string           `json:"topic,omitzero"`
	ID     string           `json:"id,omitzero"` // of the connection
	Except string           `json:"except,omitzero"`
	Code   errors.CloseCode `json:"code,omitzero"`
	Reason string           `json:"reason,omitzero"`

	N       int        `json:"n,omitzero"`
	List    []ConnInfo `json:"list,omitzero"`
	TooMany bool       `json:"tooMany,omitzero"`
}

// maxFleetMessage bounds a message between processes, in bytes, and so the connections in one
// answer. maxFleetName bounds the id of a connection.
const (
	maxFleetMessage = 2 << 20
	maxFleetName    = 256
)

func (m *fleetMessage) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err == nil && len(b) > maxFleetMessage {
		return nil, errors.Internal.Errorf("router: a message to other processes would have %d bytes", len(b))
	}
	return b, err
}

// decodeFleet reads a message from another process, and checks it.
func decodeFleet(frame []byte) (m fleetMessage, err error) {
	if len(frame) > maxFleetMessage {
		return m, errors.New("it is too large")
	}
	if err := json.Unmarshal(frame, &m); err != nil {
		return m, err
	}
	target := m.targetName()
	switch {
	case !isProcess(m.From):
		return m, errors.New("its sender has no name")
	case m.Kind == kindLeft:
	case m.Kind == kindAlive && m.Timeout > 0:
	case m.Kind == kindAnswer && m.N >= 0:
	case m.Kind == kindQuery && target.valid() && (m.Do == doCount || m.Do == doList || m.Do == doClose && m.Code.Valid()):
	case m.Kind == kindSend && target.valid() && m.ID != "":
	default:
		return m, errors.New("it is no message between processes")
	}
	return m, nil
}

func (m *fleetMessage) targetName() targetName {
	return targetName{topic: m.Topic, id: m.ID, except: m.Except}
}

// valid reports whether the name is one that a router makes.
func (t targetName) valid() bool {
	return len(t.topic) <= maxTopicLength && len(t.id) <= maxFleetName && len(t.except) <= maxFleetName &&
		(t.id != "" && t.topic == "" || t.id == "" && isReservedTopic(t.topic))
}

// deliverToFleet gets what is sent to all processes.
func (f *fleet) deliverToFleet(m pubsub.Message) {
	if m.Lost {
		f.lose()
		return
	}
	in, err := decodeFleet(m.Frame)
	if err == nil && in.Kind != kindAlive && in.Kind != kindLeft && (in.Kind != kindQuery || in.ID != "") {
		err = errors.New("it is not for all processes")
	}
	if err != nil {
		f.r.refuseForeign(topicFleet, err)
		return
	}
	switch own := in.From == f.process; {
	case in.Kind == kindAlive:
		f.hear(in.From, time.Duration(min(in.Timeout, maxPeerTimeout.Milliseconds()))*time.Millisecond)
	case in.Kind == kindLeft && !own:
		f.remove(in.From)
	case in.Kind == kindQuery && own:
		f.returned(in.Query)
	case in.Kind == kindQuery:
		f.answer(&in)
	}
}

// deliverToProcess gets what is sent to this process.
func (f *fleet) deliverToProcess(m pubsub.Message) {
	if m.Lost {
		return
	}
	head, event, isSend := bytes.Cut(m.Frame, []byte("\n"))
	in, err := decodeFleet(head)
	switch {
	case err != nil:
	case in.Kind == kindSend && isSend:
		m.Frame = event
		if err = f.r.errForeign(&f.toTarget, m.Frame); err == nil {
			f.r.sendToConnection(in.ID, m)
		}
	case in.Kind == kindAnswer && !isSend:
		f.mu.Lock()
		if q := f.queries[in.Query]; q != nil {
			q.answered(in.From, &in)
		}
		f.mu.Unlock()
	case in.Kind == kindQuery && in.ID != "" && !isSend:
		f.answer(&in)
	default:
		err = errors.New("it is not for one process")
	}
	if err != nil {
		f.r.refuseForeign(m.Topic, err)
	}
}
