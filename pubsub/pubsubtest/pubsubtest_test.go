package pubsubtest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/suitetest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

// server is the simplest broker that is right and delivers later: a lock, a map,
// and a goroutine for each subscription. Its faults make it wrong.
type server struct {
	fault fault
	mu    sync.Mutex
	subs  map[string][]*subscription
	last  map[string]pubsub.Message
}

// process is one process's way to the server.
type process struct{ *server }

type subscription struct {
	process *process
	topic   string
	deliver func(pubsub.Message)
	running sync.Mutex

	mu     sync.Mutex
	queue  []pubsub.Message
	closed bool
	wake   chan struct{} // holds a token while there may be something to do
}

// A fault is one that a broker could have.
type fault struct {
	name string
	// part is the part of the suite that must find it, and rule what it must say.
	part, rule string

	topic     func(string) string // what names are taken for
	match     func(subscribed, sent string) bool
	message   func(pubsub.Message) pubsub.Message
	subscribe func(ctx context.Context, s *subscription, register func())

	copies           int // of every message, besides the first
	queue            int // the most that waits; 0: any number
	ownProcess       bool
	history          bool
	errNoSubscribers bool
	atOnce           bool // every message has a goroutine
	newestFirst      bool
	deliverClosed    bool // what has been queued
	closeWaits       bool
	closeAll         bool
	closeOldest      bool // whichever that is
	closeOnce        bool
	subscribeWaits   bool
	nilSubscription  bool
	synchronousList  bool // delivered in Publish, from a list made before
	counted          func(subs int) int
}

func (p *process) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := p.PublishCounted(ctx, m)
	return err
}

func (p *process) PublishCounted(ctx context.Context, m pubsub.Message) (int, error) {
	if err := ctx.Err(); err != nil && !p.fault.nilSubscription {
		return 0, err
	}
	sent := m.Topic
	if p.fault.topic != nil {
		sent = p.fault.topic(sent)
	}
	if p.fault.message != nil {
		m = p.fault.message(m)
	}
	p.mu.Lock()
	if p.fault.history {
		p.last[sent] = m
	}
	var to []*subscription
	for topic, subs := range p.subs {
		if topic == sent || p.fault.match != nil && p.fault.match(topic, sent) {
			to = append(to, subs...)
		}
	}
	if p.fault.synchronousList {
		p.mu.Unlock()
		for _, s := range to {
			s.running.Lock()
			s.deliver(m)
			s.running.Unlock()
		}
		return len(to), nil
	}
	for _, s := range to {
		if p.fault.ownProcess && s.process != p {
			continue
		}
		for range 1 + p.fault.copies {
			s.push(m)
		}
	}
	p.mu.Unlock()
	if p.fault.errNoSubscribers && len(to) == 0 {
		return 0, errors.New("no subscribers")
	}
	if p.fault.counted != nil {
		return p.fault.counted(len(to)), nil
	}
	return len(to), nil
}

func (p *process) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	if err := ctx.Err(); err != nil {
		if p.fault.nilSubscription {
			return nil, nil
		}
		return nil, err
	}
	if p.fault.topic != nil {
		topic = p.fault.topic(topic)
	}
	s := &subscription{process: p, topic: topic, deliver: deliver, wake: make(chan struct{}, 1)}
	register := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fault.subscribeWaits {
			for _, other := range p.subs["any"] {
				waitFor(&other.running)
			}
			p.subs["any"] = append(p.subs["any"], s)
		}
		p.subs[topic] = append(p.subs[topic], s)
		if m, ok := p.last[topic]; ok {
			s.push(m)
		}
	}
	if p.fault.subscribe != nil {
		p.fault.subscribe(ctx, s, register)
	} else {
		register()
	}
	go s.run()
	return s, nil
}

// waitFor waits until the lock is free.
func waitFor(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

func (s *subscription) push(m pubsub.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.process.fault
	if s.closed || f.queue > 0 && len(s.queue) == f.queue {
		return
	}
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscription) run() {
	f := s.process.fault
	for range s.wake {
		for {
			s.mu.Lock()
			if len(s.queue) == 0 || s.closed && !f.deliverClosed {
				gone := s.closed
				s.mu.Unlock()
				if gone {
					return
				}
				break
			}
			m := s.queue[0]
			s.queue = s.queue[1:]
			if f.newestFirst {
				last := len(s.queue) - 1
				if last >= 0 {
					m, s.queue[last] = s.queue[last], m
				}
			}
			s.mu.Unlock()
			if f.atOnce {
				go s.deliver(m)
				continue
			}
			s.running.Lock()
			s.deliver(m)
			s.running.Unlock()
		}
	}
}

func (s *subscription) Close() error {
	f, p := s.process.fault, s.process
	p.mu.Lock()
	subs := p.subs[s.topic]
	i := slices.Index(subs, s)
	switch {
	case f.closeAll:
		subs = nil
	case f.closeOldest:
		subs = subs[min(1, len(subs)):]
	case i >= 0:
		subs = slices.Delete(slices.Clone(subs), i, i+1)
	}
	p.subs[s.topic] = subs
	p.mu.Unlock()
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if f.closeWaits {
		waitFor(&s.running)
	}
	if again && f.closeOnce {
		return errors.New("closed already")
	}
	return nil
}

func open(f fault) func(*testing.T, int) []pubsub.Broker {
	return func(_ *testing.T, n int) []pubsub.Broker {
		s := &server{fault: f, subs: make(map[string][]*subscription), last: make(map[string]pubsub.Message)}
		brokers := make([]pubsub.Broker, n)
		for i := range brokers {
			brokers[i] = &process{s}
		}
		return brokers
	}
}

func TestRightBrokerPasses(t *testing.T) { pubsubtest.Run(t, open(fault{})) }

const (
	everySubscription = "a message goes to every subscription of its topic"
	asItIs            = "a topic's name is taken as it is"
	unchanged         = "a message arrives as it was published"
	afterClose        = "no call of deliver begins after Close has returned"
	nobodyWaits       = "neither Subscribe nor Close waits for a call of deliver that is running"
	counted           = "PublishCounted returns at least one receiver for each process"
	thatOneAlone      = "closing a subscription ends that one alone"
)

var faults = []fault{
	{name: "DeliversTwice", part: "EverySubscriptionGetsEveryMessageOnce", rule: everySubscription, copies: 1},
	{name: "OwnProcessOnly", part: "EverySubscriptionGetsEveryMessageOnce", rule: everySubscription, ownProcess: true},
	{name: "DropsWhenFull", part: "EverySubscriptionGetsEveryMessageOnce", rule: everySubscription, queue: 3},
	{name: "KeepsTheLastMessage", part: "NoHistory", rule: "a broker keeps no history", history: true},
	{name: "NoSubscribersIsAnError", part: "NoSubscribers", rule: "a message without subscribers is not lost", errNoSubscribers: true},
	{name: "Patterns", part: "TopicsAreApart", rule: asItIs, match: func(subscribed, sent string) bool {
		ok, _ := path.Match(subscribed, sent)
		return ok
	}},
	{name: "TopicsFolded", part: "TopicsAreApart", rule: asItIs, topic: strings.ToLower},
	{name: "TopicsTrimmed", part: "TopicsAreApart", rule: asItIs, topic: strings.TrimSpace},
	{name: "TopicsAsText", part: "TopicsAreApart", rule: asItIs, topic: func(t string) string { return strings.ToValidUTF8(t, "\ufffd") }},
	{name: "TopicsCut", part: "TopicsAreApart", rule: asItIs, topic: func(t string) string { return t[:min(len(t), 255)] }},
	{name: "TopicsJoined", part: "TopicsAreApart", rule: asItIs, topic: func(t string) string { return strings.ReplaceAll(t, "::", ":") }},
	{name: "TopicRenamed", part: "TopicsAreApart", rule: asItIs, message: func(m pubsub.Message) pubsub.Message {
		m.Topic = "app:" + m.Topic
		return m
	}},
	{name: "OverflowLost", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		m.Overflow &= 127
		return m
	}},
	{name: "KeyLost", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		m.Key, _, _ = strings.Cut(m.Key, "\x00")
		return m
	}},
	{name: "ExceptLost", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		m.Except = ""
		return m
	}},
	{name: "FrameAsText", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		m.Frame = bytes.ToValidUTF8(m.Frame, []byte("?"))
		return m
	}},
	{name: "FrameTrimmed", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		m.Frame = bytes.TrimSpace(m.Frame)
		return m
	}},
	{name: "LargeFrameCut", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		m.Frame = m.Frame[:min(len(m.Frame), 1<<20-1)]
		return m
	}},
	{name: "FrameOverwritten", part: "MessagesArriveUnchanged", rule: unchanged, message: func(m pubsub.Message) pubsub.Message {
		if len(m.Frame) == 256 {
			m.Frame[255] = 0
		}
		return m
	}},
	{name: "NewestFirst", part: "PublishersKeepTheirOrder", rule: "what one publisher sends to one topic", newestFirst: true},
	{name: "AllAtOnce", part: "OneMessageAtATime", rule: "deliver is called for one message of the topic at a time", atOnce: true},
	{name: "NotInPlaceYet", part: "InPlaceWhenSubscribeReturns", rule: "when Subscribe returns, the subscription is in place",
		subscribe: func(_ context.Context, _ *subscription, register func()) {
			time.AfterFunc(5*time.Millisecond, register)
		}},
	{name: "EndsWithContext", part: "ContextIsForTheCall", rule: "a context applies only to the call",
		subscribe: func(ctx context.Context, s *subscription, register func()) {
			register()
			context.AfterFunc(ctx, func() { _ = s.Close() })
		}},
	{name: "NeitherErrorNorSubscription", part: "CancelledContext", rule: "a call with a cancelled context fails with an error or works", nilSubscription: true},
	{name: "BacklogAfterClose", part: "NothingBeginsAfterClose", rule: afterClose, deliverClosed: true},
	{name: "ListMadeBefore", part: "CloseWhileAnotherIsDelivering", rule: afterClose, synchronousList: true},
	{name: "CloseWaits", part: "NobodyWaitsForADelivery", rule: nobodyWaits, closeWaits: true},
	{name: "SubscribeWaits", part: "NobodyWaitsForADelivery", rule: nobodyWaits, subscribeWaits: true},
	{name: "CloseEndsTheTopic", part: "CloseConcernsOneSubscription", rule: thatOneAlone, closeAll: true},
	{name: "CloseEndsTheOldest", part: "CloseConcernsOneSubscription", rule: thatOneAlone, closeOldest: true},
	{name: "CountsNone", part: "ReceiversAreCounted", rule: counted, counted: func(int) int { return 0 }},
	{name: "CountsItself", part: "ReceiversAreCounted", rule: counted, counted: func(n int) int { return n + 1 }},
	{name: "CountsOneProcess", part: "ReceiversAreCounted", rule: counted, counted: func(n int) int { return min(n, 1) }},
	{name: "ClosedAlready", part: "CloseConcernsOneSubscription", rule: "closing a subscription works, again and again", closeOnce: true},
}

// TestSuiteCatches runs parts of the suite, in processes of their own, on brokers
// that are wrong in one way each: they must fail, and name the rule. A fault that
// is a race may stay hidden from one run, or a few, of a busy machine.
func TestSuiteCatches(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			catches(t, "^TestFaultyBroker$/^"+f.part+"$", f.name, f.rule)
		})
	}
}

// shortLimit is the time limit with which the suite runs on what has a fault: many faults show when it is over.
const shortLimit = time.Second

var limitArg = flag.Duration("pubsubtest.limit", shortLimit, "the time limit of the suite where it runs on what has a fault")

// setLimit sets the time limit, in the process that runs the suite on what has a fault.
func setLimit() { pubsubtest.SetTimeLimit(*limitArg) }

// catches runs a test with a fault in another process until it fails. On a busy machine the time limit may be over
// where nothing is wrong. So it is a long one in the run that counts, if another rule is named first.
func catches(t *testing.T, test, fault, rule string) {
	t.Helper()
	rule = "rule broken: " + rule
	if strings.Contains(suitetest.Catches(t, 20, test, fault), rule) {
		return
	}
	if out := suitetest.Catches(t, 20, test, fault, "-pubsubtest.limit=1m"); !strings.Contains(out, rule) {
		t.Fatalf("the suite failed without naming the rule %q:\n%s", rule, out)
	}
}

func TestFaultyBroker(t *testing.T) {
	f := suitetest.Find(t, faults, func(f fault) string { return f.name })
	setLimit()
	pubsubtest.Run(t, open(f))
}

// crowd is a presence that is right: its faults make it wrong.
type crowd struct {
	fault presenceFault
	mu    sync.Mutex
	in    map[string]map[string]pubsub.Member
}

type presenceFault struct {
	name, part, rule string

	topic  func(string) string
	member func(pubsub.Member) pubsub.Member
	leave  func(c *crowd, topic, id string) bool // true: and nothing else
	join   func(c *crowd, ctx context.Context, topic string, m pubsub.Member) bool
	list   func([]pubsub.Member) []pubsub.Member
	all    bool // takes what Check refuses
}

func (c *crowd) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if err := m.Check(); (err != nil || topic == "") && !c.fault.all {
		return errors.Join(err, errors.New("refused"))
	}
	if c.fault.topic != nil {
		topic = c.fault.topic(topic)
	}
	if c.fault.member != nil {
		m = c.fault.member(m)
	}
	if c.fault.join != nil && c.fault.join(c, ctx, topic, m) {
		return nil
	}
	c.put(topic, m)
	return nil
}

func (c *crowd) put(topic string, m pubsub.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in[topic] == nil {
		c.in[topic] = make(map[string]pubsub.Member)
	}
	c.in[topic][m.ID] = m
}

func (c *crowd) Leave(topic, id string) {
	if c.fault.topic != nil {
		topic = c.fault.topic(topic)
	}
	if c.fault.leave != nil && c.fault.leave(c, topic, id) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.in[topic], id)
}

func (c *crowd) Members(_ context.Context, topic string) (list []pubsub.Member, err error) {
	if c.fault.topic != nil {
		topic = c.fault.topic(topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.in[topic] {
		list = append(list, m)
	}
	if c.fault.list != nil {
		list = c.fault.list(list)
	}
	return list, nil
}

func openCrowd(f presenceFault) func(*testing.T, int) []pubsub.Presence {
	return func(_ *testing.T, n int) []pubsub.Presence {
		c := &crowd{fault: f, in: make(map[string]map[string]pubsub.Member)}
		all := make([]pubsub.Presence, n)
		for i := range all {
			all[i] = c
		}
		return all
	}
}

func TestRightPresencePasses(t *testing.T) { pubsubtest.RunPresence(t, openCrowd(presenceFault{})) }

var presenceFaults = []presenceFault{
	{name: "SeenLater", part: "JoinedIsSeenEverywhere", rule: "when Join returns, Members has the member",
		join: func(c *crowd, _ context.Context, topic string, m pubsub.Member) bool {
			time.AfterFunc(5*time.Millisecond, func() { c.put(topic, m) })
			return true
		}},
	{name: "StaysForEver", part: "LeftIsSeenNowhere", rule: "a member is in a topic until it leaves",
		leave: func(*crowd, string, string) bool { return true }},
	{name: "LeaveEndsTheTopic", part: "LeavingConcernsOneMember", rule: "Leave takes one member out of one topic",
		leave: func(c *crowd, topic, _ string) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.in, topic)
			return true
		}},
	{name: "DataLost", part: "MembersArriveUnchanged", rule: "a member is seen as it joined",
		member: func(m pubsub.Member) pubsub.Member { m.Data = bytes.TrimSpace(m.Data); return m }},
	{name: "UserAsText", part: "MembersArriveUnchanged", rule: "a member is seen as it joined",
		member: func(m pubsub.Member) pubsub.Member { m.User = strings.ToValidUTF8(m.User, "?"); return m }},
	{name: "FirstStays", part: "JoiningAgainReplaces", rule: "a member with the same ID is replaced",
		join: func(c *crowd, _ context.Context, topic string, m pubsub.Member) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, there := c.in[topic][m.ID]
			return there
		}},
	{name: "LeavesLate", part: "TheLastWordCounts", rule: "after joining and leaving in quick succession",
		leave: func(c *crowd, topic, id string) bool {
			time.AfterFunc(5*time.Millisecond, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.in[topic], id)
			})
			return true
		}},
	{name: "TopicsFolded", part: "TopicsAreApart", rule: "a topic's name is taken as it is", topic: strings.ToLower},
	{name: "TakesAnything", part: "MembersAreBounded", rule: "what Member.Check refuses is no member", all: true},
	{name: "ListCut", part: "ManyMembers", rule: "a topic holds thousands",
		list: func(list []pubsub.Member) []pubsub.Member { return list[:min(len(list), 1000)] }},
	{name: "ListedTwice", part: "JoinedIsSeenEverywhere", rule: "each member is there once",
		list: func(list []pubsub.Member) []pubsub.Member { return append(list, list...) }},
	{name: "GoesWithContext", part: "ContextIsForTheCall", rule: "a context applies only to the call",
		join: func(c *crowd, ctx context.Context, topic string, m pubsub.Member) bool {
			c.put(topic, m)
			context.AfterFunc(ctx, func() { c.Leave(topic, m.ID) })
			return true
		}},
}

func TestPresenceSuiteCatches(t *testing.T) {
	for _, f := range presenceFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			catches(t, "^TestFaultyPresence$/^"+f.part+"$", f.name, f.rule)
		})
	}
}

func TestFaultyPresence(t *testing.T) {
	f := suitetest.Find(t, presenceFaults, func(f presenceFault) string { return f.name })
	setLimit()
	pubsubtest.RunPresence(t, openCrowd(f))
}
