package pubsubtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// bounded appends random messages. What is kept must be the last ones, as many as fit.
func bounded(s *logSuite, rule string, h pubsub.History) {
	s.Helper()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	topic := s.topic("bounded")
	var sent []pubsub.Message
	for i := range 120 {
		m := message(topic, strconv.Itoa(i)+strings.Repeat("x", random.IntN(40)))
		if random.IntN(20) == 0 {
			m = message(topic, strings.Repeat("y", 200))
		}
		m.Position = s.append(s.log(i), m, h, "")
		sent = append(sent, m)
		if random.IntN(3) > 0 {
			continue
		}
		keep, size := 0, 0
		for keep < min(h.Messages, len(sent)) {
			size += len(sent[len(sent)-1-keep].Frame)
			if keep > 0 && size > h.Bytes {
				break
			}
			keep++
		}
		page := s.all(s.log(i+1), topic, h)
		want := sent[len(sent)-keep:]
		same := len(page.Messages) == keep && page.Head == m.Position
		for j := 0; same && j < keep; j++ {
			same = sameMessage(page.Messages[j], want[j]) && page.Messages[j].Position == want[j].Position
		}
		if !same {
			s.broken(rule, "with %+v, after %d messages of which the last %d fit, the log has %s; the seed is %d", h, len(sent), keep, describePage(page), seed)
		}
	}
}

func boundedByMessages(s *logSuite) {
	const rule = "a log keeps the last messages, at most History.Messages"
	for _, n := range []int{1, 2, 7, 50} {
		bounded(s.renamed(fmt.Sprint(n)), rule, pubsub.History{Messages: n, Bytes: 1 << 20, Age: plenty.Age})
	}
	// The bound of the last Append counts.
	topic := s.topic("changed")
	for i, n := range []int{10, 10, 10, 10, 10, 2, 10, 10} {
		s.append(s.log(i), message(topic, "f"), pubsub.History{Messages: n, Bytes: 1 << 20, Age: plenty.Age}, "")
	}
	if page := s.all(s.log(0), topic, plenty); len(page.Messages) != 4 {
		s.broken(rule, "of five messages and one with which two are kept, and two more, the log has %s", describePage(page))
	}
}

func boundedByBytes(s *logSuite) {
	const rule = "a log keeps the last messages, at most History.Bytes of frames, and the last one always"
	for _, n := range []int{1, 60, 199, 500} {
		bounded(s.renamed(fmt.Sprint(n)), rule, pubsub.History{Messages: 1000, Bytes: n, Age: plenty.Age})
	}
	bounded(s.renamed("both"), rule, pubsub.History{Messages: 9, Bytes: 200, Age: plenty.Age})
}

// renamed is the suite with other topics.
func (s *logSuite) renamed(prefix string) *logSuite {
	other := *s.suite
	other.prefix += prefix + "-"
	return &logSuite{suite: &other, logs: s.logs, faults: s.faults}
}

// clockError is how much the time of a log may differ from the suite's: it may be in whole milliseconds.
const clockError = 5 * time.Millisecond

// boundedByAge appends and reads until the first messages have gone, and then reads until all have.
func boundedByAge(s *logSuite) {
	const late = "a message that is older than History.Age is not read"
	const early = "a message is kept until it is older than History.Age"
	const age = 100 * time.Millisecond
	h := pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: age}
	topic := s.topic("aging")
	type call struct{ before, after time.Time }
	var calls []call
	var last pubsub.Position
	check := func(l pubsub.Log) (n int) {
		before := time.Now()
		page := s.all(l, topic, h)
		after := time.Now()
		n = len(page.Messages)
		if page.Head != last {
			s.broken("the position of the last message is kept longer than the message", "it is %+v, and the head is %+v", last, page.Head)
		}
		for i, c := range calls {
			kept := i >= len(calls)-n
			if kept && before.Sub(c.after) > age+clockError {
				s.broken(late, "message %d was read %v after it was appended; Age is %v", i+1, before.Sub(c.after), age)
			}
			if !kept && after.Sub(c.before) < age-clockError {
				s.broken(early, "message %d was not read %v after it was appended; Age is %v", i+1, after.Sub(c.before), age)
			}
		}
		return n
	}
	if !poll.Within(timeLimit, func() bool {
		i := len(calls)
		c := call{before: time.Now()}
		last = s.append(s.log(i), message(topic, strconv.Itoa(i)), h, "")
		c.after = time.Now()
		calls = append(calls, c)
		return check(s.log(i+1)) < len(calls)
	}) {
		s.broken(late, "%v after the first one was appended all messages are there", timeLimit)
	}
	if !poll.Within(timeLimit, func() bool { return check(s.log(0)) == 0 }) {
		s.broken(late, "%v after the last one was appended there are messages", timeLimit)
	}
}

// outlivesItsMessages uses a log long after the age of its last message.
func outlivesItsMessages(s *logSuite) {
	const rule = "a log ends no earlier than IDWindow after its last use, however short its History.Age"
	h := pubsub.History{Messages: 10, Bytes: 1000, Age: time.Millisecond}
	longer := pubsub.History{Messages: 10, Bytes: 1000, Age: 100 * h.Age}
	topic, read, empty, witness := s.topic("appended"), s.topic("read"), s.topic("empty"), s.topic("witness")
	p := s.append(s.log(0), message(topic, "f"), h, "id")
	other := s.append(s.log(0), message(read, "f"), h, "")
	begun, _ := s.read(s.log(0), empty, h, pubsub.ReadOptions{})
	s.append(s.log(0), message(witness, "f"), longer, "")
	if !poll.Within(timeLimit, func() bool { return len(s.all(s.log(0), witness, longer).Messages) == 0 }) {
		s.broken("a message that is older than History.Age is not read", "after %v it is there; Age is %v", timeLimit, longer.Age)
	}
	page, _ := s.read(s.log(1), read, h, pubsub.ReadOptions{From: other, Messages: 1, Bytes: 1})
	if heads := s.heads(s.log(1), read, empty); page.Head != other || page.Lost != pubsub.LossNone || page.More || heads[0] != other || heads[1] != begun.Head {
		s.broken(rule, "after %v the heads are %+v, and what is read is %s", longer.Age, heads, describePage(page))
	}
	if again := s.append(s.log(1), message(topic, "g"), h, "id"); again != p {
		s.broken(rule, "after %v the id of %+v was appended again: %+v", longer.Age, p, again)
	}
	if next := s.append(s.log(1), message(topic, "h"), h, ""); next.Epoch != p.Epoch || next.Offset != 2 {
		s.broken(rule, "after %v the message after %+v has the position %+v", longer.Age, p, next)
	}
}

// readingWhileTrimmed has readers follow a log that keeps little.
func readingWhileTrimmed(s *logSuite) {
	const rule = "while messages are removed, a reader gets what follows its position, or LossTrimmed"
	const publishers, each, readers, keep = 3, 400, 6, 20
	const total = publishers * each
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	topic := s.topic("short")
	h := pubsub.History{Messages: keep, Bytes: 1 << 20, Age: plenty.Age}
	var mu sync.Mutex
	seen := make(map[uint64]pubsub.Message)
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				s.append(s.log(p), message(topic, fmt.Sprintf("%d %d", p, i)), h, "")
			}
		})
	}
	for i := range readers {
		wg.Go(func() {
			r := pubsub.ReadOptions{Messages: 1 + 4*i, Bytes: 1 << 20}
			for !s.Failed() {
				page, ok := s.read(s.log(i), topic, h, r)
				switch {
				case !ok:
					return
				case page.Lost == pubsub.LossTrimmed:
					if page.Head.Offset < r.From.Offset+keep {
						s.Errorf("rule broken: %s\nfrom %+v it reads %s; %d messages are kept", rule, r.From, describePage(page), keep)
						return
					}
					r.From = pubsub.Position{}
					continue
				case page.Lost != pubsub.LossNone:
					s.Errorf("rule broken: %s\nfrom %+v it reads %s", rule, r.From, describePage(page))
					return
				case page.Head.Offset < r.From.Offset:
					s.Errorf("rule broken: the head of a log only grows\nafter %+v it is %+v", r.From, page.Head)
					return
				}
				for _, m := range page.Messages {
					mu.Lock()
					if other, ok := seen[m.Position.Offset]; ok && !sameEntry(m, other) {
						s.Errorf("rule broken: a message is the same whenever it is read\n%s\n%s", describeEntry(m), describeEntry(other))
					}
					seen[m.Position.Offset] = m
					mu.Unlock()
					r.From = m.Position
				}
				if r.From.Offset == total {
					return
				}
				if ctx.Err() != nil {
					s.Errorf("rule broken: %s\nafter %v a reader is at %+v", rule, timeLimit, r.From)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.all(s.log(0), topic, h).Messages); n != keep && !s.Failed() {
		s.broken("a log keeps the last messages, at most History.Messages", "it has %d of %d", n, keep)
	}
}
