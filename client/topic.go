package client

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// Gap says that events of a topic may have been missed.
type Gap struct {
	// Topic is the name of the topic.
	Topic string
	// Reason is why, in the words of PROTOCOL.md: "epoch", "trimmed", "rewound" and "tooFar": the topic goes on without
	// the events that the server does not have. "denied": the client is not subscribed any more. "tooLarge": an event
	// was above Options.MaxMessage; it will not come. "subscribed": the topic was subscribed to anew, behind what was
	// missed. "lost": a topic without history, of which the servers have lost events.
	Reason string
}

const reasonTooLarge = "tooLarge"

// topic is a topic with history that the client is subscribed to.
type topic struct {
	ticket, pos string

	behind bool // the connection is new, and the topic not resumed yet
	held   bool // the server has subscribed it all the same, and will send again what comes
}

// Forget ends the resuming of a topic with history after reconnects. It ends by itself when the
// server ends the subscription.
func (c *Client) Forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, topic)
}

const (
	// maxTopics bounds the topics that are resumed. A server allows 256 for a connection by default.
	maxTopics = 1024
	// maxTicket is the size in bytes of the largest ticket that is kept, with the name of its topic.
	maxTicket = 4 << 10
	// maxPosition is the size in bytes of the longest position that is kept. PROTOCOL.md allows 27.
	maxPosition = 128
)

// moveTo notes a position. One that is too long is none: no message follows it.
func (t *topic) moveTo(pos string) {
	if len(pos) <= maxPosition {
		t.pos = pos
	}
}

// comesAgain reports whether the event at a position came before, or will come when the topic is resumed. c.mu is held.
func (c *Client) comesAgain(topic, pos string) bool {
	t := c.topics[topic]
	return t != nil && pos != "" && (t.held || t.pos == pos)
}

// moveTo notes the position of an event that was taken. c.mu is held.
func (c *Client) moveTo(topic, pos string) {
	if t := c.topics[topic]; t != nil && pos != "" {
		t.moveTo(pos)
	}
}

// topicFrame takes what the server says about topics.
func (l *link) topicFrame(f *frame, data []byte) error {
	var p struct {
		Topic  string   `json:"topic"`
		Pos    string   `json:"pos"`
		Ticket string   `json:"ticket"`
		Reason string   `json:"reason"`
		Topics []string `json:"topics"`

		Resumed bool `json:"resumed"`
	}
	if err := json.Unmarshal(f.Payload, &p); err != nil {
		return l.malformed(f.Type, data)
	}
	c := l.c
	if f.Type == typeGap {
		for _, name := range p.Topics {
			if err := l.gap(name, "lost"); err != nil {
				return err
			}
		}
		return nil
	}
	if f.Type == typeUnsubscribed {
		c.Forget(p.Topic)
		return l.event(f, len(data)) // for the application, too
	}
	c.mu.Lock()
	t, full := c.topics[p.Topic], len(c.topics) >= maxTopics
	if t != nil && t.behind && f.Type == typeSubscribed {
		t.held = !p.Resumed
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	if f.Type == typeSubscribed {
		if err := l.begun(p.Topic); err != nil {
			return err
		}
	}
	reason := ""
	switch {
	case f.Type == typeReset:
		reason = p.Reason
	case t == nil && full || len(p.Topic)+len(p.Ticket) > maxTicket || len(p.Pos) > maxPosition:
		return l.reportError(f.Type, errors.ResourceExhausted.New("the topic cannot be resumed: there are too many topics, or its ticket is too large"))
	case t != nil && t.pos != p.Pos: // which this goroutine alone changes
		reason = "subscribed"
	}
	if reason != "" {
		if err := l.gap(p.Topic, reason); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t = c.topics[p.Topic]; t == nil && f.Type == typeSubscribed {
		t = new(topic)
		c.topics[p.Topic] = t
	}
	if t != nil {
		t.moveTo(p.Pos)
		t.held = false
	}
	if f.Type == typeSubscribed {
		t.ticket = p.Ticket
	}
	return nil
}

// gap has OnGap called in the order of the events.
func (l *link) gap(topic, reason string) error {
	return l.deliver(len(topic), func(context.Context) { l.c.missed(Gap{topic, reason}) })
}

// topicsAtOnce is how many topics are resumed with one frame, which has to fit into the server's
// Limits.MaxPayload.
const topicsAtOnce = 64

// resumeAll resumes the topics, before messages are sent: a message may subscribe to one of them. c.mu is held.
func (l *link) resumeAll() {
	names := make([]string, 0, len(l.c.topics))
	for name, t := range l.c.topics {
		names = append(names, name)
		t.behind, t.held = true, false
	}
	if len(names) == 0 {
		return
	}
	l.resuming = !l.c.slow // else the request of the handler would wait for events that wait for the handler
	l.c.running.Go(func() {
		names := l.resume(names)
		l.c.mu.Lock()
		l.resuming = false
		l.c.wake()
		l.c.mu.Unlock()
		for pause := l.c.opts.MinBackoff; len(names) > 0 && sleep(l.ctx, rand.N(pause)+1); pause = min(2*pause, l.c.opts.MaxBackoff) {
			names = l.resume(names)
		}
	})
}

// resume resumes topics. It returns those that are to be tried again.
func (l *link) resume(names []string) (later []string) {
	for names := range slices.Chunk(names, topicsAtOnce) {
		later = append(later, l.resumeSome(names)...)
	}
	return later
}

func (l *link) resumeSome(names []string) (later []string) {
	type entry struct {
		Ticket string `json:"ticket"`
		Pos    string `json:"pos"`
	}
	var q struct {
		Topics []entry `json:"topics"`
	}
	l.c.mu.Lock()
	names = slices.DeleteFunc(names, func(name string) bool { return l.c.topics[name] == nil }) // forgotten
	for _, name := range names {
		t := l.c.topics[name]
		q.Topics = append(q.Topics, entry{t.ticket, t.pos})
	}
	l.c.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	err := l.ask(typeResume, q, func(answer jsontext.Value, err error) {
		switch e := errors.From(err); {
		case err == nil:
			later = l.resumed(names, answer)
		case e.Retryable():
			later = names
		case len(names) == 1:
			l.resumed(names, nil)
		}
	})
	switch e := errors.From(err); {
	case err == nil || l.ctx.Err() != nil:
	case e.Retryable():
		sleep(l.ctx, e.RetryAfter)
	case len(names) > 1: // one of them may be the reason
		half := len(names) / 2
		return append(l.resumeSome(names[:half:half]), l.resumeSome(names[half:])...)
	default:
		l.c.opts.Logger.Warn("wskit client: a topic was not resumed", "topic", names[0], "error", err)
	}
	return later
}

// resumed takes the answer for topics; nil: all are denied. c.mu is held.
func (l *link) resumed(names []string, answer jsontext.Value) (later []string) {
	type outcome struct {
		Resumed bool   `json:"resumed"`
		Ticket  string `json:"ticket"`
		Reason  string `json:"reason"`
	}
	var a struct {
		Topics []outcome `json:"topics"`
	}
	if json.Unmarshal(answer, &a) != nil || len(a.Topics) != len(names) {
		a.Topics = make([]outcome, len(names)) // neither resumed nor with a reason: denied
	}
	missed := func(name, reason string) {
		l.c.inbox.add(delivery{call: func(context.Context) { l.c.missed(Gap{name, reason}) }})
	}
	for i, name := range names {
		t, now := l.c.topics[name], a.Topics[i]
		if t == nil { // forgotten
			continue
		}
		if now.Reason == "unavailable" {
			later = append(later, name)
			continue
		}
		held := t.held
		t.behind, t.held = false, false
		switch {
		case now.Ticket != "" && len(now.Ticket) <= maxTicket:
			t.ticket = now.Ticket
		case now.Resumed:
		case now.Reason == "subscribed":
			if held { // else it was resumed before, with others
				missed(name, "subscribed")
			}
		default:
			delete(l.c.topics, name)
			missed(name, "denied")
		}
	}
	return later
}
