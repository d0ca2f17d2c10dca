package cluster

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	kindReply  = "reply"  // to the process that asks: what a connection has answered
	kindOver   = "over"   // to all: a question has been answered, or is not asked any more
)

// What a query is for.
const (
	doCount       = "count"
	doList        = "list"
	doClose       = "close"
	doSubscribe   = "subscribe"
	doUnsubscribe = "unsubscribe"
	doRevoke      = "revoke"
	doAsk         = "ask"
)

// message is a message between processes.
type message[C any] struct {
	Kind    string `json:"kind"`
	From    string `json:"from"`
	Timeout int64  `json:"timeoutMs,omitzero"` // of kindAlive and doAsk

	Query  uint64           `json:"query,omitzero"`
	Do     string           `json:"do,omitzero"`
	Topic  string           `json:"topic,omitzero"`
	ID     string           `json:"id,omitzero"` // of the connection
	Except string           `json:"except,omitzero"`
	Code   errors.CloseCode `json:"code,omitzero"`
	Reason string           `json:"reason,omitzero"`
	Topics []string         `json:"topics,omitzero"` // to subscribe to
	Pos    string           `json:"pos,omitzero"`    // of a revocation

	Ask     uint64         `json:"ask,omitzero"` // names a question among those of its process
	Type    string         `json:"type,omitzero"`
	Payload jsontext.Value `json:"payload,omitzero"` // of a question, or an answer

	N       int         `json:"n,omitzero"` // of kindAlive: when it was sent, by the clock of the process
	List    []C         `json:"list,omitzero"`
	TooMany bool        `json:"tooMany,omitzero"`
	Failed  errors.Code `json:"failed,omitzero"`
}

// maxMessage bounds a message between processes, in bytes, and so the connections in one
// answer. maxName bounds the id of a connection and the name of a topic.
const (
	maxMessage = 2 << 20
	maxName    = 256
)

func (m *message[C]) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err == nil && len(b) > maxMessage {
		return nil, errors.Internal.Errorf("router: a message to other processes would have %d bytes", len(b))
	}
	return b, err
}

// decode reads a message from another process, and checks it.
func (c *Cluster[C]) decode(frame []byte) (m message[C], err error) {
	if len(frame) > maxMessage {
		return m, errors.New("it is too large")
	}
	if err := json.Unmarshal(frame, &m); err != nil {
		return m, err
	}
	target := m.target()
	switch {
	case !isProcess(m.From):
		return m, errors.New("its sender has no name")
	case m.Kind == kindLeft:
	case m.Kind == kindAlive && m.Timeout > 0:
	case m.Kind == kindAnswer && m.N >= 0:
	case m.Kind == kindQuery && c.isTarget(target) &&
		(m.Do == doCount || m.Do == doList || m.Do == doClose && m.Code.Valid() ||
			(m.Do == doSubscribe || m.Do == doUnsubscribe) && c.areTopics(m.Topics) || m.Do == doRevoke && m.Pos != "" ||
			m.Do == doAsk && m.Ask > 0 && m.Timeout > 0 && m.Timeout <= maxAsking.Milliseconds()):
	case (m.Kind == kindReply || m.Kind == kindOver) && m.Ask > 0:
	case m.Kind == kindSend && c.isTarget(target) && m.ID != "":
	default:
		return m, errors.New("it is no message between processes")
	}
	return m, nil
}

func (m *message[C]) target() Target { return Target{m.Topic, m.ID, m.Except} }

// isTarget reports whether a target is one that a router makes.
func (c *Cluster[C]) isTarget(t Target) bool {
	return len(t.Topic) <= maxName && len(t.ID) <= maxName && len(t.Except) <= maxName &&
		(t.ID != "" && t.Topic == "" || t.ID == "" && strings.HasPrefix(t.Topic, c.config.Topics))
}

// MaxTopics bounds the topics to which connections are subscribed at once.
const MaxTopics = 1000

// areTopics reports whether topics are those of an application.
func (c *Cluster[C]) areTopics(topics []string) bool {
	return len(topics) > 0 && len(topics) <= MaxTopics && !slices.ContainsFunc(topics, func(name string) bool {
		return name == "" || len(name) > maxName || strings.HasPrefix(name, c.config.Topics)
	})
}

// deliverToAll gets what is sent to all processes.
func (c *Cluster[C]) deliverToAll(m pubsub.Message) {
	if m.Lost {
		c.lose()
		return
	}
	in, err := c.decode(m.Frame)
	if err == nil && in.Kind != kindAlive && in.Kind != kindLeft && in.Kind != kindOver && (in.Kind != kindQuery || in.ID != "") {
		err = errors.New("it is not for all processes")
	}
	if err != nil {
		c.config.Refuse(c.topicOfAll(), err)
		return
	}
	switch own := in.From == c.id; {
	case in.Kind == kindAlive:
		if own {
			c.confirm(in.N)
		}
		c.hear(in.From, time.Duration(min(in.Timeout, maxProcessTimeout.Milliseconds()))*time.Millisecond)
	case in.Kind == kindLeft && !own:
		c.remove(in.From)
	case in.Kind == kindOver:
		c.over(foreign{in.From, in.Ask})
	case in.Kind == kindQuery && own:
		c.returned(in.Query)
	case in.Kind == kindQuery:
		c.answer(&in)
	}
}

// deliverToProcess gets what is sent to this process.
func (c *Cluster[C]) deliverToProcess(m pubsub.Message) {
	if m.Lost {
		return
	}
	head, event, isSend := bytes.Cut(m.Frame, []byte("\n"))
	in, err := c.decode(head)
	switch {
	case err != nil:
	case in.Kind == kindSend && isSend:
		m.Frame = event
		err = c.config.Deliver(in.ID, m)
	case in.Kind == kindAnswer && !isSend:
		c.mu.Lock()
		if q := c.queries[in.Query]; q != nil {
			q.answered(in.From, &in)
		}
		c.mu.Unlock()
	case in.Kind == kindOver && !isSend:
		c.over(foreign{in.From, in.Ask})
	case in.Kind == kindReply && !isSend:
		c.replied(&in)
	case in.Kind == kindQuery && in.ID != "" && !isSend:
		c.answer(&in)
	default:
		err = errors.New("it is not for one process")
	}
	if err != nil {
		c.config.Refuse(m.Topic, err)
	}
}
