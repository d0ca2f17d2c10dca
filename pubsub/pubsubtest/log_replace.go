package pubsubtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/wskit/wskit/pubsub"
)

// replaced replaces messages from several processes, and compares all that is read with what is right.
func replaced(s *logSuite) {
	const rule = "Replace gives one message another frame for all that read it from then on, and changes nothing else"
	if _, ok := s.log(0).(pubsub.Replacer); !ok {
		s.Skip("pubsubtest: the log is no pubsub.Replacer")
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	topic := s.topic("replaced")
	const total = 60
	h := pubsub.History{Messages: total, Bytes: 1 << 20, Age: plenty.Age}
	var wg sync.WaitGroup
	for i := range total { // at once: a log may keep those together
		m := message(topic, fmt.Sprint(i, strings.Repeat("x", random.IntN(50))))
		wg.Go(func() { s.append(s.log(i), m, h, fmt.Sprint("id", i)) })
	}
	wg.Wait()
	want := s.all(s.log(0), topic, h).Messages
	if len(want) != total {
		s.broken(rule, "%d messages were appended, and the log has %d", total, len(want))
	}
	l := s.listen(s.log(1), topic)
	replace := func(at pubsub.Position, frame string) bool {
		s.Helper()
		ok, err := s.log(random.IntN(len(s.logs))).(pubsub.Replacer).Replace(context.Background(), topic, at, []byte(frame))
		if err != nil {
			s.Errorf("rule broken: a working log replaces messages\nReplace of %+v: %v", at, err)
		}
		return ok
	}
	check := func(what string) {
		s.Helper()
		reader := s.log(random.IntN(len(s.logs)))
		for _, backwards := range []bool{false, true} {
			r := pubsub.ReadOptions{Messages: 1 + random.IntN(total), Bytes: random.IntN(1000), Backwards: backwards}
			var got []pubsub.Message
			for more := true; more; {
				page, ok := s.read(reader, topic, h, r)
				if !ok || page.Lost != pubsub.LossNone || len(page.Messages) == 0 || page.Head != want[len(want)-1].Position {
					s.broken(rule, "after %s, %+v reads %s; the seed is %d", what, r, describePage(page), seed)
				}
				more = page.More
				if backwards {
					got = append(page.Messages, got...)
					r.From = got[0].Position
				} else {
					got = append(got, page.Messages...)
					r.From = got[len(got)-1].Position
				}
			}
			if !slices.EqualFunc(got, want, sameEntry) {
				s.broken(rule, "after %s, the log has %s\nwant %s\nthe seed is %d", what, describePage(pubsub.Page{Messages: got}),
					describePage(pubsub.Page{Messages: want}), seed)
			}
		}
	}
	for n := range 40 {
		i := random.IntN(total)
		frame := fmt.Sprint("replaced ", n, strings.Repeat("y", random.IntN(200)))
		if !replace(want[i].Position, frame) {
			s.broken(rule, "the message %+v was not replaced; the seed is %d", want[i].Position, seed)
		}
		want[i].Frame = []byte(frame)
		check(fmt.Sprintf("replacing message %d", i))
	}

	for what, change := range map[string]func(*pubsub.Position){
		"another epoch":  func(p *pubsub.Position) { p.Epoch++ },
		"another tag":    func(p *pubsub.Position) { p.Tag++ },
		"another offset": func(p *pubsub.Position) { p.Offset++ },
		"no message":     func(p *pubsub.Position) { p.Offset = total + 1 },
		"the beginning":  func(p *pubsub.Position) { p.Offset, p.Tag = 0, 0 },
	} {
		at := want[total/2].Position
		if change(&at); replace(at, "wrong") {
			s.broken(rule, "a position with %s was replaced", what)
		}
		check("a try with " + what)
	}
	if p := s.append(s.log(0), message(topic, "again"), h, "id7"); !slices.ContainsFunc(want, func(m pubsub.Message) bool { return m.Position == p }) {
		s.broken(rule, "an id of before the replacing is at %+v, where no message was", p)
	}
	check("an Append of a known id")
	first := want[0].Position
	last := message(topic, "last")
	last.Previous = want[total-1].Position.Tag
	last.Position = s.append(s.log(0), last, h, "")
	want = append(want[1:], last)
	if replace(first, "wrong") {
		s.broken(rule, "a message that is not kept any more was replaced")
	}
	check("the oldest was removed")
	if got := s.expect(l, 1, rule); !sameEntry(got[0], last) {
		s.broken(rule, "%s is delivered", describeEntry(got[0]))
	}
	other := s.topic("other")
	if ok, err := s.log(0).(pubsub.Replacer).Replace(context.Background(), other, first, []byte("x")); ok || err != nil {
		s.broken(rule, "of a topic without a log, Replace returns %t, %v", ok, err)
	}
	if head := s.heads(s.log(0), other); head[0] != (pubsub.Position{}) {
		s.broken(rule, "Replace has begun a log")
	}
}
