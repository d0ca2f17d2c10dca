package router_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// faultyLog is a pubsub.Log in which a test causes the faults that a store and the way from it can have.
// It records what came before each message, whatever becomes of the log.
type faultyLog struct {
	mu     sync.Mutex
	topics map[string]*faultyTopic
	before map[pubsub.Position]pubsub.Position // of every message that was ever appended
	epoch  uint64
	tag    uint32

	drop  int           // so many deliveries are lost
	fail  error         // of Read and Heads
	delay time.Duration // of the results of Read

	reads, heads atomic.Int64

	looking sync.RWMutex // held by reads of the log and of heads; see unread
}

type faultyTopic struct {
	head    pubsub.Position
	entries []pubsub.Message
	ids     map[string]pubsub.Position
	subs    []*faultySub

	delivering sync.Mutex
}

type faultySub struct {
	log     *faultyLog
	topic   *faultyTopic
	deliver func(pubsub.Message)
	closed  atomic.Bool
}

func newFaultyLog() *faultyLog {
	return &faultyLog{topics: make(map[string]*faultyTopic), before: make(map[pubsub.Position]pubsub.Position)}
}

func (l *faultyLog) topic(name string) *faultyTopic {
	t := l.topics[name]
	if t == nil {
		t = new(faultyTopic)
		l.topics[name] = t
	}
	return t
}

func (l *faultyLog) begun(name string) *faultyTopic {
	t := l.topic(name)
	if t.head.Epoch == 0 {
		l.epoch++
		t.head, t.entries, t.ids = pubsub.Position{Epoch: l.epoch}, nil, make(map[string]pubsub.Position)
	}
	return t
}

func (l *faultyLog) Append(_ context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	l.mu.Lock()
	t := l.begun(m.Topic)
	if p, ok := t.ids[id]; ok && id != "" {
		l.mu.Unlock()
		return p, nil
	}
	l.tag++
	m.Previous = t.head.Tag
	m.Position = pubsub.Position{Epoch: t.head.Epoch, Offset: t.head.Offset + 1, Tag: l.tag}
	l.before[m.Position] = t.head
	t.head, t.ids[id] = m.Position, m.Position
	t.entries = append(t.entries, m)
	t.entries = t.entries[max(0, len(t.entries)-h.Messages):]
	lost := l.drop > 0
	if lost {
		l.drop--
	}
	t.delivering.Lock()
	defer t.delivering.Unlock()
	l.mu.Unlock()
	if !lost {
		t.deliver(m)
	}
	return m.Position, nil
}

// inject delivers a message that no router has sent.
func (l *faultyLog) inject(m pubsub.Message) {
	l.mu.Lock()
	t := l.topic(m.Topic)
	l.mu.Unlock()
	t.delivering.Lock()
	defer t.delivering.Unlock()
	t.deliver(m)
}

func (t *faultyTopic) deliver(m pubsub.Message) {
	for _, s := range t.subs {
		if !s.closed.Load() {
			s.deliver(m)
		}
	}
}

func (l *faultyLog) Publish(_ context.Context, m pubsub.Message) error {
	l.inject(m)
	return nil
}

func (l *faultyLog) Subscribe(_ context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topic(topic)
	t.delivering.Lock()
	defer t.delivering.Unlock()
	s := &faultySub{log: l, topic: t, deliver: deliver}
	t.subs = append(slices.Clip(t.subs), s)
	return s, nil
}

func (s *faultySub) Close() error { s.closed.Store(true); return nil }

func (l *faultyLog) Read(_ context.Context, topic string, _ pubsub.History, o pubsub.ReadOptions) (pubsub.Page, error) {
	l.reads.Add(1)
	l.looking.RLock()
	defer l.looking.RUnlock()
	l.mu.Lock()
	defer func(d time.Duration) { spend(d) }(l.delay)
	defer l.mu.Unlock()
	if l.fail != nil {
		return pubsub.Page{}, l.fail
	}
	t := l.begun(topic)
	p := pubsub.Page{Head: t.head}
	from, last := 0, len(t.entries) // of what may be read
	if o.From.Epoch != 0 {
		removed := t.head.Offset - uint64(len(t.entries))
		at := slices.IndexFunc(t.entries, func(m pubsub.Message) bool { return m.Position.Offset == o.From.Offset+1 })
		switch {
		case o.From.Epoch != t.head.Epoch:
			p.Lost = pubsub.LossEpoch
		case o.From == t.head:
			at = len(t.entries)
		case o.From.Offset >= t.head.Offset:
			p.Lost = pubsub.LossRewound
		case o.From.Offset < removed || o.Backwards && o.From.Offset == removed:
			p.Lost = pubsub.LossTrimmed
		case t.entries[at].Previous != o.From.Tag:
			p.Lost = pubsub.LossRewound
		}
		if p.Lost != "" {
			return p, nil
		}
		if o.Backwards {
			last = max(0, at-1)
		} else {
			from = at
		}
	}
	size, whole := 0, t.entries[from:last]
	if o.Backwards {
		n := 0
		for n < min(o.Messages, len(whole)) && (n == 0 || size+len(whole[len(whole)-1-n].Frame) <= o.Bytes) {
			size += len(whole[len(whole)-1-n].Frame)
			n++
		}
		p.Messages = slices.Clone(whole[len(whole)-n:])
	} else {
		n := 0
		for n < min(o.Messages, len(whole)) && (n == 0 || size+len(whole[n].Frame) <= o.Bytes) {
			size += len(whole[n].Frame)
			n++
		}
		p.Messages = slices.Clone(whole[:n])
	}
	p.More = len(p.Messages) < len(whole)
	return p, nil
}

func (l *faultyLog) Heads(_ context.Context, topics []string) (heads []pubsub.Position, err error) {
	l.heads.Add(1)
	l.looking.RLock()
	defer l.looking.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range topics {
		heads = append(heads, l.topic(name).head)
	}
	return heads, l.fail
}

// lose has the next deliveries lost in silence.
func (l *faultyLog) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = n
}

// unread calls f while nothing reads the log: what f changes is found as a whole.
func (l *faultyLog) unread(f func()) {
	l.looking.Lock()
	defer l.looking.Unlock()
	f()
}

// failing has reads fail, or not any more.
func (l *faultyLog) failing(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// wipe loses a log.
func (l *faultyLog) wipe(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topic(topic).head = pubsub.Position{}
}

// rewind loses the last messages of a log.
func (l *faultyLog) rewind(topic string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topic(topic)
	n = min(n, len(t.entries))
	for range n {
		t.head = l.before[t.head]
	}
	t.entries = t.entries[:len(t.entries)-n]
	clear(t.ids)
}

// trim removes all messages but the last ones.
func (l *faultyLog) trim(topic string, keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topic(topic)
	t.entries = t.entries[max(0, len(t.entries)-keep):]
}

func (l *faultyLog) head(topic string) pubsub.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topic(topic).head
}

// reader is a client of one topic with history. It fails the test if it gets anything else than what
// follows its position.
type reader struct {
	*peer
	log    *faultyLog
	topic  string
	at     pubsub.Position
	ticket string
	texts  []string // what it got

	resumed []topicOutcome // of the last resume
}

// topicOutcome is an entry of $ws:resumed.
type topicOutcome struct {
	Topic       string
	Resumed     bool
	Joined      bool
	Replayed    int
	Pos, Ticket string
	Reason      string
}

func (o topicOutcome) String() string {
	if o.Resumed {
		return fmt.Sprintf("%s resumed after %d", o.Topic, o.Replayed)
	}
	return o.Topic + " " + o.Reason
}

// wire is a frame as a client reads it.
type wireFrame struct {
	Type string
	Meta struct {
		CorrelationID string
		Topic         string
		Pos           string
	}
	Payload json.RawMessage
}

func (r *reader) frame() (f wireFrame) {
	r.t.Helper()
	got, err := r.read()
	if err != nil || got.b0 != 0x81 {
		r.t.Fatalf("in place of a message: %v, %v", got, err)
	}
	d := json.NewDecoder(bytes.NewReader(got.payload))
	if err := d.Decode(&f); err != nil {
		r.t.Fatalf("%v: %s", err, got.payload)
	}
	return f
}

func parse(t testing.TB, text string) pubsub.Position {
	t.Helper()
	p, err := pubsub.ParsePosition(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step reads one frame, and checks it. It returns "message", or the type of another frame, with the
// reason of a reset.
func (r *reader) step() string {
	r.t.Helper()
	f := r.frame()
	var p struct{ Topic, Pos, Ticket, Reason, Text string }
	_ = json.Unmarshal(f.Payload, &p)
	switch f.Type {
	case "$ws:subscribed":
		r.at, r.ticket = parse(r.t, p.Pos), p.Ticket
	case "$ws:resumed":
		var q struct{ Topics []topicOutcome }
		_ = json.Unmarshal(f.Payload, &q)
		r.resumed = q.Topics
	case "$ws:reset":
		r.at = parse(r.t, p.Pos)
		return f.Type + " " + p.Reason
	case "heard":
		at := parse(r.t, f.Meta.Pos)
		r.log.mu.Lock()
		before, ok := r.log.before[at]
		r.log.mu.Unlock()
		if !ok || before != r.at || f.Meta.Topic != r.topic {
			r.t.Fatalf("the client is at %+v and gets %+v, which comes after %+v", r.at, at, before)
		}
		r.at = at
		r.texts = append(r.texts, p.Text)
		return "message"
	}
	return f.Type
}

// until reads until the client is at the end of the log, and returns what it got besides messages.
func (r *reader) until(end pubsub.Position) (others []string) {
	r.t.Helper()
	for r.at != end {
		if s := r.step(); s != "message" {
			others = append(others, s)
		}
	}
	return others
}

// subscribe makes the client a member.
func (s *socketServer) reader(l *faultyLog, topic string) *reader {
	s.t.Helper()
	r := &reader{peer: s.dial(), log: l, topic: topic}
	r.write(join1(topic))
	if got := r.step(); got != "$ws:subscribed" {
		s.t.Fatalf("subscribing is answered %s", got)
	}
	for r.step() != "join.reply" {
	}
	return r
}

// resume has the client resume on another connection, perhaps to another process, and reads until it
// is answered. It returns what came besides messages.
func (r *reader) resume(s *socketServer, lines ...string) (others []string) {
	r.t.Helper()
	r.hangUp()
	r.peer = s.dial(lines...)
	r.write(resumption(held{r.ticket, r.at.String()}))
	for r.resumed = nil; r.resumed == nil; {
		switch got := r.step(); got {
		case "message", "$ws:resumed":
		default:
			others = append(others, got)
			if got == "RPC_ERROR" {
				return others
			}
		}
	}
	if o := r.resumed[0]; o.Ticket != "" {
		r.ticket = o.Ticket
	}
	return others
}

type held struct {
	Ticket string `json:"ticket"`
	Pos    string `json:"pos"`
}

// resumption is a $ws:resume.
func resumption(entries ...held) []byte {
	payload, _ := json.Marshal(map[string]any{"topics": entries})
	return textFrame(`{"type":"$ws:resume","meta":{"correlationId":"r"},"payload":` + string(payload) + `}`)
}

func say(i int) said { return said{Text: fmt.Sprint(i)} }
