package pubsubtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/pubsub"
)

// everySubscription: every subscription gets each message once, from any publisher.
func everySubscription(s *suite) {
	const rule = "a message goes to every subscription of its topic, in every process, at most once"
	topic := s.topic("all")
	var listeners []*listener
	for range 2 {
		for _, b := range s.brokers {
			listeners = append(listeners, s.listen(b, topic))
		}
	}
	const each = 20
	for i := range each {
		for n, b := range s.brokers {
			s.publish(b, message(topic, fmt.Sprintf("%d from %d", i, n)))
		}
	}
	total := each * len(s.brokers)
	for _, l := range listeners {
		s.expect(l, total, rule)
	}
	// A second copy of anything is here before these.
	for n, b := range s.brokers {
		s.publish(b, message(topic, fmt.Sprintf("last from %d", n)))
	}
	for i, l := range listeners {
		got := s.expect(l, total+len(s.brokers), rule)
		seen := make(map[string]int)
		for _, m := range got {
			seen[string(m.Frame)]++
		}
		for frame, times := range seen {
			if times != 1 {
				s.broken(rule, "subscription %d got %q %d times", i, frame, times)
			}
		}
		if len(seen) != total+len(s.brokers) {
			s.broken(rule, "subscription %d got %d different messages of %d", i, len(seen), total+len(s.brokers))
		}
	}
}

func noSubscribers(s *suite) {
	if err := s.broker(0).Publish(s.Context(), message(s.topic("desert"), "hello")); err != nil {
		s.broken("a message without subscribers is not lost: there is no error", "Publish: %v", err)
	}
}

// noHistory: a subscription begins with what is published after it.
func noHistory(s *suite) {
	const rule = "a broker keeps no history: what all have received is not delivered to a later subscription"
	topic := s.topic("history")
	var early []*listener
	for _, b := range s.brokers {
		early = append(early, s.listen(b, topic))
	}
	s.publish(s.broker(0), message(topic, "before"))
	for _, l := range early {
		s.expect(l, 1, "a message goes to every subscription of its topic")
	}
	var late []*listener
	for _, b := range s.brokers {
		late = append(late, s.listen(b, topic))
	}
	s.publish(s.broker(0), message(topic, "after"))
	for _, l := range late {
		if got := s.expect(l, 1, "a message goes to every subscription of its topic"); string(got[0].Frame) != "after" {
			s.broken(rule, "a later subscription got %s", frames(got))
		}
	}
}

// confusable are names that are different for a broker that takes them as they
// are, and by no other.
func confusable() []string {
	names := []string{
		"room", "Room", "ROOM", "room ", " room", "  room", "room\t", "room\n", "room\r\n", "room\x00", "room\x00a",
		"room:a", "room::a", "room:a:", ":room:a", "room:a:b", "room/a", "room.a", "room,a", "room;a", "room|a", "room a", "room  a",
		"*", "**", "room*", "room.*", "room:*", "room:?", "?oom", "[r]oom", "[a-z]oom", "room:[ab]", `room:\a`, `room\*`, `\`, "room:>", "room.>", "#", "room/#", "room/+",
		"{room}", "{room}a", "{room}:a", "{}", "}{", "room{", "%s", "%73", "room%20a", "room+a", "$ws:room", "__room", "__keyspace@0__:*",
		"räum", "ra\u0308um", "РООМ", "房间", "😀", "room\u200b", "room\u00a0", "\ufeffroom", "room\ufffd", "room\xff", "\xff\xfe", "\xc3", "\x80",
		"\n", "\n\n", "\r\n", "\r\n\r\n", "room\nroom", "room\n\na", "$4\r\nroom\r\n", "'", `"`, `"room"`, "null", "0", "-1", "00", "room'--",
	}
	return names
}

func topicsAreApart(s *suite) {
	const rule = "a topic's name is taken as it is: no patterns, no folding, no trimming, no separators"
	var topics []string
	for _, name := range confusable() {
		topics = append(topics, s.topic(name))
	}
	// Names that are equal but for the end, of the length that routers allow.
	for _, last := range []string{"a", "b"} {
		topics = append(topics, s.prefix+strings.Repeat("x", 256-len(s.prefix)-len(last))+last)
	}
	// Names that begin differently, where a pattern would catch the prefix, too.
	for _, before := range []string{"*", "?", "[p]", " ", "\n", ":", `\`} {
		topics = append(topics, before+s.topic("room"))
	}

	// One subscription of each topic at one of the brokers, one of every other
	// topic at another, too.
	type of struct {
		*listener
		index int
	}
	var listeners []of
	for i, topic := range topics {
		listeners = append(listeners, of{s.listen(s.broker(i), topic), i})
		if i%2 == 0 {
			listeners = append(listeners, of{s.listen(s.broker(i+1), topic), i})
		}
	}
	// Messages of the first round that are misdirected arrive before the end of the last.
	const rounds = 3
	for round := range rounds {
		for i, topic := range topics {
			s.publish(s.broker(i+round), message(topic, strconv.Itoa(i)))
		}
		for _, l := range listeners {
			s.expect(l.listener, round+1, rule)
		}
	}
	for _, l := range listeners {
		got := l.messages()
		for _, m := range got {
			if sent, _ := strconv.Atoi(string(m.Frame)); sent != l.index {
				s.broken(rule, "a subscription of %s got what was published to %s", short(l.topic), short(topics[sent]))
			}
			if m.Topic != l.topic {
				s.broken(rule, "a message of the topic %s came with the topic %s", short(l.topic), short(m.Topic))
			}
		}
		if len(got) != rounds {
			s.broken(rule, "a subscription of %s got %d messages of %d", short(l.topic), len(got), rounds)
		}
	}
}

func manyTopics(s *suite) {
	const rule = "a broker carries hundreds of topics at once"
	const topics, workers = 500, 8
	listeners := make([]*listener, topics)
	parallel(workers, topics, func(i int) { listeners[i] = s.listen(s.broker(i), s.topic(strconv.Itoa(i))) })
	parallel(workers, topics, func(i int) { s.publish(s.broker(i/2), message(listeners[i].topic, strconv.Itoa(i))) })
	for i, l := range listeners {
		if got := s.expect(l, 1, rule); string(got[0].Frame) != strconv.Itoa(i) {
			s.broken(rule, "topic %d got %s", i, frames(got))
		}
	}
	parallel(workers, topics, func(i int) { s.close(listeners[i].sub) })
}

// parallel calls f for 0 to n-1 from several goroutines.
func parallel(workers, n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
}

func messagesArriveUnchanged(s *suite) {
	const rule = "a message arrives as it was published, every field and every byte"
	topic := s.topic("fields: {*}\n")
	bytes256 := make([]byte, 256)
	for i := range bytes256 {
		bytes256[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	sent := []pubsub.Message{
		{},
		{Frame: []byte{}},
		{Frame: []byte(`{"type":"a","payload":"ü😀"}`)},
		{Frame: bytes256},
		{Frame: []byte("\r\n$-1\r\n*2\r\n\x00\n\n")},
		{Frame: []byte{0}},
		{Frame: large},
		{Frame: []byte(" \t\n")},
		{Overflow: 1},
		{Overflow: 2, Frame: []byte("f")},
		{Overflow: 127, Frame: []byte("f")},
		{Overflow: 128, Frame: []byte("f")},
		{Overflow: 255, Frame: []byte("f")},
		{Key: "k", Frame: []byte("f")},
		{Key: topic + "\x00" + "type", Frame: []byte("f")},
		{Key: string(bytes256), Frame: []byte("f")},
		{Key: strings.Repeat("k", 1000), Frame: []byte("f")},
		{Except: "ZGJC7QRZU4H2XUYH3UR2TBK3HE", Frame: []byte("f")},
		{Except: string(bytes256), Frame: []byte("f")},
		{Except: "k", Frame: []byte("f")},
		{Overflow: 3, Key: "k:\n", Except: "e:\n", Frame: []byte("f:\n")},
		{Overflow: 3, Key: "\n", Except: "\n", Frame: large},
	}
	// The frame belongs to the publisher and must not be changed.
	originals := make([][]byte, len(sent))
	for i := range sent {
		sent[i].Topic = topic
		originals[i] = bytes.Clone(sent[i].Frame)
	}
	var listeners []*listener
	for _, b := range s.brokers {
		listeners = append(listeners, s.listen(b, topic))
	}
	for _, m := range sent {
		s.publish(s.broker(0), m)
	}
	for _, l := range listeners {
		got := s.expect(l, len(sent), rule)
		for i, want := range sent {
			m := got[i]
			if m.Topic != want.Topic || m.Overflow != want.Overflow || m.Key != want.Key || m.Except != want.Except || !bytes.Equal(m.Frame, originals[i]) {
				s.broken(rule, "published %s\ngot       %s", describe(want), describe(m))
			}
		}
	}
	for i, m := range sent {
		if !bytes.Equal(m.Frame, originals[i]) {
			s.broken("a frame is shared by all receivers and not changed", "%s is now %s", short(string(originals[i])), short(string(m.Frame)))
		}
	}
}

func describe(m pubsub.Message) string {
	return fmt.Sprintf("topic %s, overflow %d, key %s, except %s, frame %s", short(m.Topic), m.Overflow, short(m.Key), short(m.Except), short(string(m.Frame)))
}

// publishersKeepTheirOrder: several publishers at once to several topics.
func publishersKeepTheirOrder(s *suite) {
	const rule = "what one publisher sends to one topic, one after the other, arrives in that order and without gaps"
	const publishers, each = 6, 300
	topics := []string{s.topic("order a"), s.topic("order b")}
	var listeners []*listener
	for _, topic := range topics {
		for _, b := range s.brokers {
			listeners = append(listeners, s.listen(b, topic))
		}
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				for _, topic := range topics {
					s.publish(s.broker(p), message(topic, fmt.Sprintf("%d %d", p, i)))
				}
			}
		})
	}
	wg.Wait()
	for _, l := range listeners {
		var next [publishers]int
		for _, m := range s.expect(l, publishers*each, rule) {
			var p, i int
			if _, err := fmt.Sscanf(string(m.Frame), "%d %d", &p, &i); err != nil || p < 0 || p >= publishers {
				s.broken(rule, "%s was not published", short(string(m.Frame)))
			}
			if i != next[p] {
				s.broken(rule, "a subscription of %s got message %d of publisher %d where %d was due", short(l.topic), i, p, next[p])
			}
			next[p]++
		}
	}
}

// oneMessageAtATime looks for calls of deliver that overlap.
func oneMessageAtATime(s *suite) {
	const rule = "deliver is called for one message of the topic at a time"
	const publishers, each = 8, 100
	topic := s.topic("turns")
	var overlapped atomic.Bool
	var listeners []*listener
	for _, b := range s.brokers {
		l := newListener(topic)
		var inside atomic.Int32
		sub := s.subscribe(b, topic, func(m pubsub.Message) {
			if inside.Add(1) != 1 {
				overlapped.Store(true)
			}
			for range 10 {
				runtime.Gosched() // gives a Close that does not wait the opportunity to fail
			}
			l.add(m)
			inside.Add(-1)
		})
		s.Cleanup(func() { _ = sub.Close() })
		listeners = append(listeners, l)
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				s.publish(s.broker(p), message(topic, fmt.Sprintf("%d %d", p, i)))
			}
		})
	}
	wg.Wait()
	for _, l := range listeners {
		got, ok := l.wait(publishers * each)
		if overlapped.Load() {
			s.broken(rule, "a subscription was called while its call for another message was running")
		}
		if !ok {
			s.broken(rule, "%d messages of %d arrived", len(got), publishers*each)
		}
	}
}
