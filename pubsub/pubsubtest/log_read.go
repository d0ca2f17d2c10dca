package pubsubtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/wskit/wskit/pubsub"
)

// pages reads pages of every kind, and compares them with what was appended.
func pages(s *logSuite) {
	const rule = "a page has the messages after From, or before it, as many as its bounds allow"
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	topic := s.topic("pages")
	const total = 40
	h := pubsub.History{Messages: total - 7, Bytes: 1 << 20, Age: plenty.Age}
	first, ok := s.read(s.log(0), topic, h, pubsub.ReadOptions{})
	if !ok {
		return
	}
	seen := []pubsub.Position{first.Head} // by offset
	var log []pubsub.Message
	for i := range total {
		m := message(topic, strings.Repeat("x", 1+random.IntN(30)))
		m.Position = s.append(s.log(i), m, h, "")
		m.Previous = seen[i].Tag
		seen = append(seen, m.Position)
		log = append(log, m)
	}
	kept := log[total-h.Messages:]
	oldest := int(kept[0].Position.Offset)
	for range 600 {
		r := pubsub.ReadOptions{Backwards: random.IntN(2) == 0, Messages: random.IntN(total + 5), Bytes: random.IntN(500)}
		from, to := 0, len(kept) // of kept
		if random.IntN(8) == 0 {
			r.Messages = 0
		}
		if random.IntN(5) > 0 {
			offset := oldest - 1 + random.IntN(len(kept)+1)
			if r.Backwards && offset < oldest {
				offset = oldest
			}
			r.From = seen[offset]
			if r.Backwards {
				to = offset - oldest
			} else {
				from = offset - oldest + 1
			}
		}
		part := kept[from:to]
		n, size := 0, 0
		for n < min(r.Messages, len(part)) {
			next := part[n]
			if r.Backwards {
				next = part[len(part)-1-n]
			}
			if size += len(next.Frame); n > 0 && size > r.Bytes {
				break
			}
			n++
		}
		want := part[:n]
		if r.Backwards {
			want = part[len(part)-n:]
		}
		page, ok := s.read(s.log(random.IntN(2)), topic, h, r)
		if !ok {
			s.Fatalf("the seed is %d", seed)
		}
		if !slices.EqualFunc(page.Messages, want, sameEntry) || page.More != (n < len(part)) || page.Head != seen[total] || page.Lost != pubsub.LossNone {
			s.broken(rule, "of the messages %d to %d, %+v reads %s\nwant %s\nthe seed is %d", oldest, total, r, describePage(page),
				describePage(pubsub.Page{Messages: want, Head: seen[total], More: n < len(part)}), seed)
		}
	}
}

// positionsAreChecked reads from positions that the log does not have.
func positionsAreChecked(s *logSuite) {
	const rule = "nothing is read from a position that the log does not have; the page says why"
	const total, kept = 12, 5
	topic := s.topic("positions")
	h := pubsub.History{Messages: kept, Bytes: 1 << 20, Age: plenty.Age}
	empty, ok := s.read(s.log(0), topic, h, pubsub.ReadOptions{})
	if !ok {
		return
	}
	seen := []pubsub.Position{empty.Head}
	check := func(from pubsub.Position, backwards bool, want pubsub.Loss, what string) {
		s.Helper()
		for _, messages := range []int{0, 1, 100} {
			page, ok := s.read(s.log(messages), topic, h, pubsub.ReadOptions{From: from, Backwards: backwards, Messages: messages, Bytes: 1 << 20})
			if !ok {
				s.FailNow()
			}
			if page.Lost != want || page.Head != seen[len(seen)-1] {
				s.broken(rule, "from %s, %+v (backwards %v, at most %d messages), it reads %s; Lost should be %q and the head %+v",
					what, from, backwards, messages, describePage(page), want, seen[len(seen)-1])
			}
		}
	}
	with := func(p pubsub.Position, f func(*pubsub.Position)) pubsub.Position { f(&p); return p }
	for n := 0; ; n++ {
		head := seen[n]
		oldest := max(1, n-kept+1)
		for _, backwards := range []bool{false, true} {
			check(head, backwards, pubsub.LossNone, "the head")
			check(with(head, func(p *pubsub.Position) { p.Epoch++ }), backwards, pubsub.LossEpoch, "the head in another epoch")
			check(pubsub.Position{Epoch: head.Epoch ^ 1<<40, Offset: 1, Tag: 1}, backwards, pubsub.LossEpoch, "another epoch")
			check(pubsub.Position{Epoch: head.Epoch, Offset: uint64(n) + 1, Tag: 1}, backwards, pubsub.LossRewound, "the place after the head")
			check(pubsub.Position{Epoch: head.Epoch, Offset: 1<<53 - 1, Tag: 1}, backwards, pubsub.LossRewound, "far behind the head")
			for i := oldest; i <= n; i++ {
				check(seen[i], backwards, pubsub.LossNone, "a message that is kept")
				check(with(seen[i], func(p *pubsub.Position) { p.Tag ^= 1 << 20 }), backwards, pubsub.LossRewound, "a message that has another tag")
			}
			for i := 1; i < oldest-1; i++ {
				check(seen[i], backwards, pubsub.LossTrimmed, "a message that is not kept")
			}
		}
		check(seen[oldest-1], false, pubsub.LossNone, "the place before the oldest message")
		if oldest > 2 {
			check(seen[oldest-1], true, pubsub.LossTrimmed, "the message before the oldest")
			check(with(seen[oldest-1], func(p *pubsub.Position) { p.Tag ^= 1 << 20 }), false, pubsub.LossRewound, "the message before the oldest, with another tag")
			check(seen[0], false, pubsub.LossTrimmed, "the beginning, which is not kept")
		}
		if n == total {
			return
		}
		seen = append(seen, s.append(s.log(n), message(topic, fmt.Sprint(n)), h, ""))
	}
}

func historyIsChecked(s *logSuite) {
	const rule = "a History that Check refuses, and an id that is too long, are errors, and nothing is appended"
	topic := s.topic("unchecked")
	ctx := context.Background()
	for _, h := range []pubsub.History{{}, {Messages: 1, Bytes: 1}, {Messages: 1, Age: plenty.Age}, {Bytes: 1, Age: plenty.Age}, {Messages: -1, Bytes: 1, Age: plenty.Age}, {Messages: 1, Bytes: 1, Age: 1}} {
		if p, err := s.log(0).Append(ctx, message(topic, "f"), h, ""); err == nil {
			s.broken(rule, "Append with %+v returned %+v", h, p)
		}
		if page, err := s.log(0).Read(ctx, topic, h, pubsub.ReadOptions{}); err == nil {
			s.broken(rule, "Read with %+v returned %s", h, describePage(page))
		}
	}
	if p, err := s.log(0).Append(ctx, message(topic, "f"), plenty, strings.Repeat("i", pubsub.MaxIDLength+1)); err == nil {
		s.broken(rule, "Append with an id of %d bytes returned %+v", pubsub.MaxIDLength+1, p)
	}
	if page := s.all(s.log(0), topic, plenty); len(page.Messages) != 0 || page.Head.Offset != 0 {
		s.broken(rule, "the log has %s", describePage(page))
	}
}
