package pubsubtest

import (
	"fmt"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// lostTail loses the last messages of a log, and appends others in their place.
func lostTail(s *logSuite) {
	if s.faults.LoseTail == nil {
		s.Skip("LogFaults.LoseTail is nil")
	}
	const rule = "a position whose message the store has lost is found, also when another message has its offset"
	const total, lost = 10, 3
	topic := s.topic("rewound")
	var seen [total + 1]pubsub.Position // by offset
	for i := 1; i <= total; i++ {
		seen[i] = s.append(s.log(i), message(topic, fmt.Sprint(i)), plenty, fmt.Sprint(i))
	}
	s.faults.LoseTail(s.T, s.log(0), topic, lost)
	for again := range lost + 2 {
		head := seen[total-lost]
		for i, p := range seen[1:] {
			page, ok := s.read(s.log(again), topic, plenty, pubsub.ReadOptions{From: p, Messages: 100, Bytes: 1 << 20})
			if !ok {
				return
			}
			want := pubsub.LossNone
			if i+1 > total-lost {
				want = pubsub.LossRewound
			}
			if page.Head.Epoch != head.Epoch { // the log was begun anew: as good
				want = pubsub.LossEpoch
			}
			if page.Lost != want {
				s.broken(rule, "after the last %d of %d messages were lost, and %d more appended, from %+v it reads %s", lost, total, again, p, describePage(page))
			}
		}
		l := s.listen(s.log(1), topic)
		p := s.append(s.log(again), message(topic, "new"), plenty, fmt.Sprint("new", again))
		m := s.expect(l, 1, "an appended message goes to every subscription of its topic")[0]
		s.close(l.sub)
		if m.Position != p || p.Epoch == head.Epoch && (p.Offset != uint64(total-lost+again+1) || again == 0 && m.Previous != head.Tag) {
			s.broken("a delivered message has the tag of the message before it in the log", "after the head %+v, %s was delivered", head, describeEntry(m))
		}
	}
}

func lostLog(s *logSuite) {
	if s.faults.LoseLog == nil {
		s.Skip("LogFaults.LoseLog is nil")
	}
	const rule = "a log that was lost is followed by one with another epoch"
	topic := s.topic("lost")
	p := s.append(s.log(0), message(topic, "f"), plenty, "id")
	s.faults.LoseLog(s.T, s.log(0), topic)
	if heads := s.heads(s.log(1), topic); heads[0] != (pubsub.Position{}) {
		s.broken(rule, "the log of %+v was lost, and its head is %+v", p, heads[0])
	}
	l := s.listen(s.log(1), topic)
	page, ok := s.read(s.log(1), topic, plenty, pubsub.ReadOptions{From: p, Messages: 1, Bytes: 1})
	if ok && (page.Lost != pubsub.LossEpoch || page.Head.Epoch == p.Epoch || page.Head.Offset != 0) {
		s.broken(rule, "from %+v it reads %s", p, describePage(page))
	}
	next := s.append(s.log(0), message(topic, "f"), plenty, "id")
	if next.Epoch != page.Head.Epoch || next.Offset != 1 {
		s.broken(rule, "after the head %+v, the message with an id from before is at %+v", page.Head, next)
	}
	s.expect(l, 1, "an appended message goes to every subscription of its topic")
}

// interruptionsAreReported sends before, while and after the subscriptions of one log are cut off.
func interruptionsAreReported(s *logSuite) {
	if s.faults.Interrupt == nil {
		s.Skip("LogFaults.Interrupt is nil")
	}
	const rule = "messages that a subscription misses are reported by a message with Lost before the next one"
	topics := []string{s.topic("appended"), s.topic("published"), s.topic("quiet")}
	var listeners []*listener
	for _, topic := range topics {
		listeners = append(listeners, s.listen(s.log(0), topic))
	}
	sent := make([]int, len(topics))
	send := func(i int) {
		if m := message(topics[i], fmt.Sprint(sent[i])); i == 1 {
			s.publish(s.log(1), m)
		} else {
			s.append(s.log(1), m, plenty, "")
		}
		sent[i]++
	}
	for i, l := range listeners {
		send(i)
		s.expect(l, 1, "a message goes to every subscription of its topic")
	}
	// missing says what a subscription has missed without a report.
	missing := func(i int) string {
		next, lost := 0, false
		for _, m := range listeners[i].messages() {
			if m.Lost {
				if len(m.Frame) > 0 || m.Topic != topics[i] {
					s.broken("a message with Lost has a topic and no frame", "it is %s", describe(m))
				}
				lost = true
				continue
			}
			var n int
			if _, err := fmt.Sscan(string(m.Frame), &n); err != nil || n < next || n > next && !lost {
				return fmt.Sprintf("%s was delivered where %d was due", short(string(m.Frame)), next)
			}
			next, lost = n+1, false
		}
		if next < sent[i] && !lost {
			return fmt.Sprintf("nothing was delivered after %d of %d", next, sent[i])
		}
		return ""
	}
	for range 3 {
		s.faults.Interrupt(s.T, s.log(0), func() {
			for range 5 {
				send(0)
				send(1)
			}
			send(2) // and nothing after it
		})
		for range 20 {
			send(0)
			send(1)
		}
		for i := range topics {
			if !poll.Within(timeLimit, func() bool { return missing(i) == "" }) {
				s.broken(rule, "%v after an interruption: %s", timeLimit, missing(i))
			}
		}
	}
}
