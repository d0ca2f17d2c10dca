package pubsubtest

import (
	"context"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// receiversAreCounted is for brokers that are a pubsub.ReceiverCounter.
func receiversAreCounted(s *suite) {
	const rule = "PublishCounted returns at least one receiver for each process with a subscription, and at most one for each subscription"
	counters := make([]pubsub.ReceiverCounter, len(s.brokers))
	for i, b := range s.brokers {
		var ok bool
		if counters[i], ok = b.(pubsub.ReceiverCounter); !ok {
			s.Skip("the broker is no pubsub.ReceiverCounter")
		}
	}
	topic := s.topic("counted")
	publish := func(frame string, least, most int, of string) {
		s.Helper()
		for i, c := range counters {
			n, err := c.PublishCounted(context.Background(), message(topic, frame))
			if err != nil {
				s.broken("a working broker delivers messages", "PublishCounted by broker %d: %v", i, err)
			}
			if n < least || n > most {
				s.broken(rule, "broker %d returned %d for %s", i, n, of)
			}
		}
	}
	publish("no", 0, 0, "a topic without subscriptions")
	processes := make(map[pubsub.Broker]bool)
	var listeners []*listener
	for i, b := range s.brokers {
		for range 2 {
			listeners = append(listeners, s.listen(b, topic))
			processes[b] = true
			publish("more", len(processes), len(listeners), "subscriptions that were made")
		}
		s.listen(s.broker(i), s.topic("another"))
	}
	for _, l := range listeners {
		s.expect(l, len(counters), "a message goes to every subscription of its topic, also if it is published with PublishCounted")
	}
	last := len(listeners) - 1
	for _, l := range listeners[:last] {
		s.close(l.sub)
	}
	publishUntil(s, counters[0], topic, 1, rule)
	s.close(listeners[last].sub)
	publishUntil(s, counters[0], topic, 0, rule)
}

// publishUntil publishes until there are so many receivers: closing does not wait for the
// network.
func publishUntil(s *suite, c pubsub.ReceiverCounter, topic string, want int, rule string) {
	s.Helper()
	var n int
	if !poll.Within(timeLimit, func() (ok bool) {
		var err error
		if n, err = c.PublishCounted(context.Background(), message(topic, "fewer")); err != nil {
			s.broken("a working broker delivers messages", "PublishCounted: %v", err)
		}
		return n == want
	}) {
		s.broken(rule, "broker 0 returned %d after all subscriptions but %d were closed", n, want)
	}
}
