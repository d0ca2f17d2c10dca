package pubsubtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/wskit/wskit/pubsub"
)

// deliveredAsInTheLog appends from several goroutines of several processes.
func deliveredAsInTheLog(s *logSuite) {
	const rule = "messages are delivered in the order of the log, which has no holes"
	const publishers, each = 6, 150
	const total = publishers * each
	topic := s.topic("log")
	var listeners []*listener
	for i := range 2 * len(s.logs) {
		listeners = append(listeners, s.listen(s.log(i), topic))
	}
	var positions [publishers][each]pubsub.Position
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				positions[p][i] = s.append(s.log(p), message(topic, fmt.Sprintf("%d %d", p, i)), plenty, "")
			}
		})
	}
	wg.Wait()
	log := s.all(s.log(0), topic, plenty)
	if len(log.Messages) != total || log.Head.Offset != total {
		s.broken("what was appended is in the log", "%d messages were appended, and the log is %s", total, describePage(log))
	}
	for _, l := range listeners {
		got := s.expect(l, total, "an appended message goes to every subscription of its topic, in every process")
		for i, m := range got {
			if !sameEntry(m, log.Messages[i]) {
				s.broken(rule, "delivery %d is %s, the message of the log is %s", i, describeEntry(m), describeEntry(log.Messages[i]))
			}
		}
	}
	var next [publishers]int
	tags := make(map[uint32]bool)
	for _, m := range log.Messages {
		var p, i int
		if _, err := fmt.Sscanf(string(m.Frame), "%d %d", &p, &i); err != nil || p < 0 || p >= publishers {
			s.broken(rule, "%s was not appended", short(string(m.Frame)))
		}
		if i != next[p] {
			s.broken("what one publisher appends to one topic, one after the other, is in the log in that order", "message %d of publisher %d is where %d was due", i, p, next[p])
		}
		if positions[p][i] != m.Position {
			s.broken("Append returns the position of the message", "it returned %+v for %s", positions[p][i], describeEntry(m))
		}
		next[p]++
		tags[m.Position.Tag] = true
	}
	if len(tags) < total-5 { // of 32 random bits each
		s.broken("the tag of a message is random", "%d messages have %d different tags", total, len(tags))
	}
}

func describeEntry(m pubsub.Message) string {
	return fmt.Sprintf("%+v after tag %x: %s", m.Position, m.Previous, describe(m))
}

func appendedUnchanged(s *logSuite) {
	const rule = "a message is delivered and read as it was appended, every field and every byte"
	topic := s.topic("fields: {*}\n")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	sent := []pubsub.Message{
		{},
		{Frame: []byte{}},
		{Frame: every, Overflow: 255, Key: string(every), Except: string(every)},
		{Frame: []byte("\r\n$-1\r\n*2\r\n\x00\n\n"), Key: "\x00", Except: "\n"},
		{Frame: large, Overflow: 1},
		{Frame: []byte(" 1 "), Key: "1", Except: "0"},
		{Frame: []byte("f"), Overflow: 128},
		{Frame: []byte("f"), Key: "k"},
		{Frame: []byte("f"), Except: "e"},
		// What Append ignores.
		{Frame: []byte("f"), More: true, Lost: true, Previous: 7, Position: pubsub.Position{Epoch: 1, Offset: 2, Tag: 3}},
	}
	var listeners []*listener
	for _, l := range s.logs {
		listeners = append(listeners, s.listen(l, topic))
	}
	originals := make([][]byte, len(sent))
	for i := range sent {
		sent[i].Topic = topic
		originals[i] = bytes.Clone(sent[i].Frame)
		s.append(s.log(i), sent[i], plenty, "")
	}
	check := func(got []pubsub.Message) {
		for i, m := range got {
			want := sent[i]
			want.Frame = originals[i]
			if !sameMessage(m, want) || m.Lost || m.Position.Offset != uint64(i)+1 {
				s.broken(rule, "appended %s\ngot      %s", describe(sent[i]), describeEntry(m))
			}
		}
	}
	for i, l := range listeners {
		check(s.expect(l, len(sent), rule))
		for range 2 { // the second time without what reading did
			page := s.all(s.log(i), topic, plenty)
			if len(page.Messages) != len(sent) {
				s.broken(rule, "%d messages were appended, and the log is %s", len(sent), describePage(page))
			}
			check(page.Messages)
		}
	}
}

func publishedNotKept(s *logSuite) {
	const rule = "messages that are published are delivered without a position, and are in no log"
	topic := s.topic("published")
	l := s.listen(s.log(1), topic)
	s.publish(s.log(0), pubsub.Message{Topic: topic, Frame: []byte("f"), Lost: true, Previous: 7, Position: pubsub.Position{Epoch: 1, Offset: 2, Tag: 3}})
	if m := s.expect(l, 1, rule)[0]; m.Lost || m.Previous != 0 || m.Position != (pubsub.Position{}) || string(m.Frame) != "f" {
		s.broken(rule, "%s was delivered, lost %v", describeEntry(m), m.Lost)
	}
	if heads := s.heads(s.log(0), topic); heads[0] != (pubsub.Position{}) {
		s.broken(rule, "the topic has a log with the head %+v", heads[0])
	}
	if page := s.all(s.log(1), topic, plenty); len(page.Messages) != 0 || page.Head.Offset != 0 {
		s.broken(rule, "the log has %s", describePage(page))
	}
}

func (s *logSuite) heads(l pubsub.Log, topics ...string) []pubsub.Position {
	s.Helper()
	heads, err := l.Heads(context.Background(), topics)
	if err != nil || len(heads) != len(topics) {
		s.broken("a working log returns a head for each topic", "Heads of %d topics returned %d, %v", len(topics), len(heads), err)
	}
	return heads
}

// beginsOnce has several processes begin the same log at once, by reading and by appending.
func beginsOnce(s *logSuite) {
	const rule = "a log begins with the first Read or Append, and keeps its epoch"
	if heads := s.heads(s.log(0), s.topic("0"), s.topic("none")); heads[0] != (pubsub.Position{}) || heads[1] != (pubsub.Position{}) {
		s.broken("Heads returns the zero Position for a topic without a log, and begins none", "it returned %+v", heads)
	}
	if heads := s.heads(s.log(0), s.topic("none")); heads[0] != (pubsub.Position{}) {
		s.broken("Heads returns the zero Position for a topic without a log, and begins none", "it returned %+v", heads)
	}
	epochs := make(map[uint64]bool)
	const rounds = 40
	for round := range rounds {
		topic := s.topic(strconv.Itoa(round))
		var wg sync.WaitGroup
		var seen [6]uint64
		for i := range seen {
			wg.Go(func() {
				if i%2 == 0 || round%2 == 0 {
					page, ok := s.read(s.log(i), topic, plenty, pubsub.ReadOptions{})
					if seen[i] = page.Head.Epoch; ok && page.More && round%2 == 0 {
						s.Errorf("rule broken: %s\nan empty log has more", rule)
					}
				} else {
					seen[i] = s.append(s.log(i), message(topic, "f"), plenty, "").Epoch
				}
			})
		}
		wg.Wait()
		head := s.heads(s.log(1), topic)[0]
		for _, epoch := range seen {
			if epoch != head.Epoch || epoch == 0 {
				s.broken(rule, "the epochs %x were seen, and the head is %+v", seen, head)
			}
		}
		if p := s.append(s.log(2), message(topic, "f"), plenty, ""); p.Epoch != head.Epoch || p.Offset != head.Offset+1 {
			s.broken(rule, "after the head %+v a message gets %+v", head, p)
		}
		epochs[head.Epoch] = true
	}
	if len(epochs) != rounds {
		s.broken("the epoch of a log is random", "%d logs have %d epochs", rounds, len(epochs))
	}
}

// nothingMissed has subscribers begin while messages are appended.
func nothingMissed(s *logSuite) {
	const rule = "a subscriber that subscribes, reads up to the head, and goes on with what is delivered misses nothing"
	const publishers, each, subscribers = 4, 200, 24
	const total = publishers * each
	topic := s.topic("busy")
	type reader struct {
		*listener
		page pubsub.Page
	}
	var readers [subscribers]reader
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				s.append(s.log(p), message(topic, fmt.Sprintf("%d %d", p, i)), plenty, "")
			}
		})
	}
	for i := range readers {
		wg.Go(func() {
			r := &readers[i]
			head, ok := s.read(s.log(i), topic, plenty, pubsub.ReadOptions{})
			// They begin at different times.
			for target := uint64(total * i / (subscribers + 8)); ok && head.Head.Offset < target && !s.Failed(); {
				head, ok = s.read(s.log(i), topic, plenty, pubsub.ReadOptions{})
			}
			l := newListener(topic)
			l.sub = s.subscribe(s.log(i), topic, l.deliver)
			r.listener = l
			r.page, _ = s.read(s.log(i), topic, plenty, pubsub.ReadOptions{From: head.Head, Messages: 1 << 20, Bytes: 1 << 30})
		})
	}
	wg.Wait()
	for _, r := range readers {
		defer func() { _ = r.sub.Close() }()
	}
	if s.Failed() {
		return
	}
	log := s.all(s.log(0), topic, plenty).Messages
	for i, r := range readers {
		if r.page.Lost != pubsub.LossNone {
			s.broken("a position can be read from as long as what follows is kept", "reader %d got %s", i, describePage(r.page))
		}
		for _, m := range r.page.Messages {
			if !sameEntry(m, log[m.Position.Offset-1]) {
				s.broken(rule, "reader %d got %s where the log has %s", i, describeEntry(m), describeEntry(log[m.Position.Offset-1]))
			}
		}
		// The deliveries are a part of the log that begins no later than after the head, and is whole.
		next := r.page.Head.Offset + 1
		for n := 1; next <= total; n++ {
			got, ok := r.wait(n)
			if !ok {
				s.broken(rule, "reader %d read up to %d, and never got message %d; the deliveries are %s", i, r.page.Head.Offset, next, describePage(pubsub.Page{Messages: got}))
			}
			m := got[n-1]
			switch offset := m.Position.Offset; {
			case offset > next:
				s.broken(rule, "reader %d read up to %d, and then got message %d where %d was due", i, r.page.Head.Offset, offset, next)
			case offset == 0 || !sameEntry(m, log[offset-1]):
				s.broken(rule, "reader %d got %s", i, describeEntry(m))
			case offset == next:
				next++
			}
		}
	}
}

// logsAreApart appends to topics with similar names.
func logsAreApart(s *logSuite) {
	const rule = "each topic has a log of its own, whatever its name"
	var topics []string
	for _, name := range confusable() {
		topics = append(topics, s.topic(name))
	}
	for round := range 3 {
		for i, topic := range topics {
			p := s.append(s.log(i+round), message(topic, fmt.Sprintf("%d %d", i, round)), plenty, fmt.Sprint(round))
			if p.Offset != uint64(round)+1 {
				s.broken(rule, "message %d of %s has the position %+v", round, short(topic), p)
			}
		}
	}
	epochs := make(map[uint64]string)
	heads := s.heads(s.log(0), topics...)
	for i, topic := range topics {
		page := s.all(s.log(i), topic, plenty)
		for round, m := range page.Messages {
			if string(m.Frame) != fmt.Sprintf("%d %d", i, round) {
				s.broken(rule, "the log of %s has %s", short(topic), frames(page.Messages))
			}
		}
		if len(page.Messages) != 3 || heads[i] != page.Head {
			s.broken(rule, "the log of %s is %s, and its head %+v", short(topic), describePage(page), heads[i])
		}
		if other, ok := epochs[page.Head.Epoch]; ok {
			s.broken(rule, "%s and %s have the same epoch", short(topic), short(other))
		}
		epochs[page.Head.Epoch] = topic
	}
}

func manyLogs(s *logSuite) {
	const rule = "there may be thousands of logs, and Heads returns their heads in the order of the topics"
	const topics, workers = 3000, 8
	names := make([]string, topics)
	want := make([]pubsub.Position, topics)
	for i := range names {
		names[i] = s.topic(strconv.Itoa((i * 7919) % topics)) // in no order
	}
	parallel(workers, topics, func(i int) {
		if i%3 == 0 {
			return // has no log
		}
		for range 1 + i%2 {
			want[i] = s.append(s.log(i), message(names[i], strconv.Itoa(i)), plenty, "")
		}
	})
	for _, l := range s.logs {
		for i, head := range s.heads(l, names...) {
			if head != want[i] {
				s.broken(rule, "head %d of %d is %+v, not %+v", i, topics, head, want[i])
			}
		}
	}
	if heads := s.heads(s.log(0)); len(heads) != 0 {
		s.broken(rule, "no topics have the heads %+v", heads)
	}
	if heads := s.heads(s.log(0), names[1], names[0], names[1]); heads[0] != want[1] || heads[1] != want[0] || heads[2] != want[1] {
		s.broken(rule, "a topic that is asked for twice has the heads %+v", heads)
	}
}

// cancelledAppend: a call whose context has ended may succeed or fail.
func cancelledAppend(s *logSuite) {
	const rule = "a call with a cancelled context fails with an error or works, and harms nothing"
	topic := s.topic("cancelled")
	l := s.listen(s.log(0), topic)
	first := s.append(s.log(0), message(topic, "first"), plenty, "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, err := s.log(0).Append(ctx, message(topic, "late"), plenty, "late")
	again := s.append(s.log(0), message(topic, "late"), plenty, "late")
	if err == nil && p != again {
		s.broken(rule, "Append returned %+v without an error, and repeated %+v", p, again)
	}
	if page, err := s.log(0).Read(ctx, topic, plenty, pubsub.ReadOptions{Messages: 10, Bytes: 100}); err == nil && page.Head != again {
		s.broken(rule, "Read returned %s without an error", describePage(page))
	}
	if heads, err := s.log(0).Heads(ctx, []string{topic}); err == nil && (len(heads) != 1 || heads[0] != again) {
		s.broken(rule, "Heads returned %+v without an error", heads)
	}
	if again.Offset != 2 || again.Epoch != first.Epoch {
		s.broken(rule, "the message is at %+v, after %+v", again, first)
	}
	s.expect(l, 2, "a message goes to every subscription of its topic")
	// A context applies only to the call.
	ctx, cancel = context.WithCancel(context.Background())
	if _, err := s.log(0).Append(ctx, message(topic, "third"), plenty, ""); err != nil {
		s.broken("a working log takes messages", "Append: %v", err)
	}
	cancel()
	s.expect(l, 3, "a message goes to every subscription of its topic, also after the end of the context of Append")
}
