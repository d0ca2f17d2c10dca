package pubsubtest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/wskit/wskit/pubsub"
)

// idOnce repeats Appends from several goroutines of several processes at once.
func idOnce(s *logSuite) {
	const rule = "an Append with the id of an earlier one adds and delivers nothing, and returns the earlier position"
	const ids, repeats = 60, 6
	topic := s.topic("ids")
	l := s.listen(s.log(1), topic)
	var positions [ids][repeats]pubsub.Position
	var wg sync.WaitGroup
	for r := range repeats {
		wg.Go(func() {
			for i := range ids {
				positions[i][r] = s.append(s.log(r), message(topic, fmt.Sprintf("%d %d", i, r)), plenty, fmt.Sprint("id", i))
			}
		})
	}
	wg.Wait()
	// The frame may differ: the id alone counts.
	for i := range ids {
		if p := s.append(s.log(i), message(topic, "again"), plenty, fmt.Sprint("id", i)); p != positions[i][0] {
			s.broken(rule, "the id %d is at %+v, and repeated at %+v", i, positions[i][0], p)
		}
	}
	last := s.append(s.log(0), message(topic, "last"), plenty, "")
	page := s.all(s.log(2), topic, plenty)
	if len(page.Messages) != ids+1 || last.Offset != ids+1 {
		s.broken(rule, "%d ids were appended %d times each, and the log has %s", ids, repeats+1, describePage(page))
	}
	for i, all := range positions {
		for _, p := range all {
			if p != all[0] {
				s.broken(rule, "Append of the id %d returned %+v", i, all)
			}
		}
		m := page.Messages[all[0].Offset-1]
		if text := string(m.Frame); m.Position != all[0] || !strings.HasPrefix(text, fmt.Sprint(i, " ")) {
			s.broken(rule, "the id %d is at %+v, and there is %s", i, all[0], describeEntry(m))
		}
	}
	for i, m := range s.expect(l, ids+1, rule) {
		if !sameEntry(m, page.Messages[i]) {
			s.broken(rule, "delivery %d is %s, and the log has %s", i, describeEntry(m), describeEntry(page.Messages[i]))
		}
	}
}

func idsAreApart(s *logSuite) {
	const rule = "an id is taken as it is, and counts for one topic; an empty one is never the same"
	topics := []string{s.topic("a"), s.topic("a1"), s.topic("A")}
	ids := []string{"", "", "1", "01", "1 ", " 1", "1\n", "1\x00", "\x00", "id", "ID", "Id", "id:", ":id", "*", "{id}", "\xff", "\xfe", "ä", "a\u0308", "'", `"`, `\`,
		strings.Repeat("i", pubsub.MaxIDLength), strings.Repeat("i", pubsub.MaxIDLength-1), strings.Repeat("i", pubsub.MaxIDLength-1) + "j"}
	for n, topic := range topics {
		for i, id := range ids {
			if p := s.append(s.log(i+n), message(topic, id), plenty, id); p.Offset != uint64(i)+1 {
				s.broken(rule, "the new id %s of topic %d is at %+v, where the offset %d is due", short(id), n, p, i+1)
			}
		}
		for i, id := range ids[2:] {
			if p := s.append(s.log(i+n+1), message(topic, id), plenty, id); p.Offset != uint64(i)+3 {
				s.broken(rule, "the repeated id %s of topic %d is at %+v, not at the offset %d", short(id), n, p, i+3)
			}
		}
		if page := s.all(s.log(n), topic, plenty); len(page.Messages) != len(ids) {
			s.broken(rule, "%d messages were appended, and the log has %s", len(ids), describePage(page))
		}
	}
}

func idsOutlive(s *logSuite) {
	const rule = "an id is known for IDWindow, also when its message has been removed from the log"
	topic := s.topic("removed")
	h := pubsub.History{Messages: 2, Bytes: 100, Age: plenty.Age}
	const n = 200
	var positions [n]pubsub.Position
	for i := range positions {
		positions[i] = s.append(s.log(i), message(topic, "f"), h, fmt.Sprint(i))
	}
	for i, p := range positions {
		if again := s.append(s.log(i+1), message(topic, "f"), h, fmt.Sprint(i)); again != p {
			s.broken(rule, "the id of %+v is appended again at %+v", p, again)
		}
	}
}
