package pubsubtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// LogFaults make the store of a [pubsub.Log] fail. The parts of the suite that need a function that
// is nil are skipped.
type LogFaults struct {
	// LoseTail makes the store lose the last n messages of a topic's log, and what was
	// kept of their ids, as the failover to a replica that does not have them does.
	LoseTail func(t *testing.T, l pubsub.Log, topic string, n int)
	// LoseLog makes the store lose the log of a topic, as a restart without its data does.
	LoseLog func(t *testing.T, l pubsub.Log, topic string)
	// Interrupt cuts off the subscriptions of l, calls meanwhile, and lets them begin again.
	Interrupt func(t *testing.T, l pubsub.Log, meanwhile func())
}

// RunLog does for a [pubsub.Log] what [Run] does for a broker: it calls open for every part of the
// suite, for n logs that share topics, as the processes of one deployment do. It
// runs the parts of Run with messages that are appended; call Run, too, for those that are published.
func RunLog(t *testing.T, open func(t *testing.T, n int) []pubsub.Log, faults LogFaults) {
	begin := func(t *testing.T, n int) *logSuite {
		logs := open(t, n)
		if len(logs) != n {
			t.Fatalf("pubsubtest: open returned %d logs, asked for %d", len(logs), n)
		}
		s := &logSuite{suite: &suite{T: t, prefix: "pubsubtest-" + rand.Text()[:10] + "-"}, logs: logs, faults: faults}
		for _, l := range logs {
			s.brokers = append(s.brokers, l)
		}
		return s
	}
	for _, part := range []struct {
		name string
		logs int
		run  func(*logSuite)
	}{
		{"DeliveredAsInTheLog", 3, deliveredAsInTheLog},
		{"AppendedMessagesAreUnchanged", 2, appendedUnchanged},
		{"PublishedMessagesAreNotKept", 2, publishedNotKept},
		{"ALogBeginsOnce", 3, beginsOnce},
		{"Pages", 2, pages},
		{"PositionsAreChecked", 2, positionsAreChecked},
		{"MessagesAreBounded", 2, boundedByMessages},
		{"BytesAreBounded", 2, boundedByBytes},
		{"AgeIsBounded", 2, boundedByAge},
		{"ALogOutlivesItsMessages", 2, outlivesItsMessages},
		{"HistoryIsChecked", 1, historyIsChecked},
		{"AnIDIsAppendedOnce", 3, idOnce},
		{"IDsAreApart", 2, idsAreApart},
		{"IDsOutliveTheirMessages", 2, idsOutlive},
		{"NothingIsMissed", 3, nothingMissed},
		{"ReadingWhileTrimmed", 3, readingWhileTrimmed},
		{"LogsAreApart", 2, logsAreApart},
		{"ManyLogs", 2, manyLogs},
		{"ReplacedMessages", 3, replaced},
		{"CancelledAppend", 1, cancelledAppend},
		{"LostTail", 2, lostTail},
		{"LostLog", 2, lostLog},
		{"InterruptionsAreReported", 2, interruptionsAreReported},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(begin(t, part.logs)) })
	}
	t.Run("Appended", func(t *testing.T) {
		run(t, func(t *testing.T, n int) *suite {
			s := begin(t, n)
			for i, l := range s.logs {
				s.brokers[i] = appending{l}
			}
			return s.suite
		})
	})
}

// appending is a broker that appends what it publishes.
type appending struct{ pubsub.Log }

func (a appending) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := a.Append(ctx, m, plenty, "")
	return err
}

// plenty keeps what a part of the suite appends.
var plenty = pubsub.History{Messages: 10_000, Bytes: 64 << 20, Age: time.Hour}

type logSuite struct {
	*suite
	logs   []pubsub.Log
	faults LogFaults
}

// log is one of the logs, for any i.
func (s *logSuite) log(i int) pubsub.Log { return s.logs[i%len(s.logs)] }

// append must not fail. It may be called from any goroutine.
func (s *logSuite) append(l pubsub.Log, m pubsub.Message, h pubsub.History, id string) pubsub.Position {
	s.Helper()
	p, err := l.Append(context.Background(), m, h, id)
	if err == nil && (p.Epoch == 0 || p.Offset == 0 || p.Tag == 0) {
		err = fmt.Errorf("the position is %+v", p)
	}
	if err != nil {
		s.Errorf("rule broken: a working log takes messages\nAppend to %s: %v", short(m.Topic), err)
	}
	return p
}

const wholePages = "a page is a part of the log, without holes, within its bounds"

// read must not fail. It checks what is true of each page. It may be called from any goroutine, and
// returns false after a failure.
func (s *logSuite) read(l pubsub.Log, topic string, h pubsub.History, r pubsub.ReadOptions) (page pubsub.Page, ok bool) {
	s.Helper()
	page, err := l.Read(context.Background(), topic, h, r)
	if err != nil {
		s.Errorf("rule broken: a working log is read\nRead of %s: %v", short(topic), err)
		return page, false
	}
	if wrong := wrongPage(topic, r, page); wrong != "" {
		s.Errorf("rule broken: %s\nRead of %s with %+v returned %s; %s", wholePages, short(topic), r, describePage(page), wrong)
		return page, false
	}
	return page, true
}

// wrongPage says what cannot be true of a page.
func wrongPage(topic string, r pubsub.ReadOptions, page pubsub.Page) string {
	size, n := 0, len(page.Messages)
	for i, m := range page.Messages {
		size += len(m.Frame)
		p := m.Position
		switch {
		case m.Topic != topic:
			return "a message has the topic " + short(m.Topic)
		case m.Lost || m.More:
			return "a message has Lost or More"
		case p.Epoch != page.Head.Epoch:
			return "the epochs of the messages and the head differ"
		case p.Offset == 0 || p.Tag == 0:
			return "a message has no position"
		case p.Offset > page.Head.Offset || p.Offset == page.Head.Offset && p != page.Head:
			return "a message is behind the head"
		case (p.Offset == 1) != (m.Previous == 0):
			return "the first message of a log has no previous tag, and all others have one"
		case i > 0 && (p.Offset != page.Messages[i-1].Position.Offset+1 || m.Previous != page.Messages[i-1].Position.Tag):
			return fmt.Sprintf("the message with the offset %d does not follow the one before", p.Offset)
		}
	}
	switch head := page.Head; {
	case head.Epoch == 0 || (head.Offset == 0) != (head.Tag == 0):
		return fmt.Sprintf("the head is %+v", head)
	case page.Lost != pubsub.LossNone && n > 0:
		return "it has messages although it says that nothing could be read"
	case n > max(r.Messages, 0):
		return fmt.Sprintf("it has %d messages", n)
	case n > 1 && size > r.Bytes:
		return fmt.Sprintf("its frames have %d bytes", size)
	case page.More && n == 0 && r.Messages > 0:
		return "it says that there is more, and has nothing"
	case n == 0:
		return ""
	}
	first, last := page.Messages[0], page.Messages[n-1]
	switch {
	case !r.Backwards && r.From.Epoch != 0 && (first.Position.Offset != r.From.Offset+1 || first.Previous != r.From.Tag || first.Position.Epoch != r.From.Epoch):
		return "it does not begin after From"
	case !r.Backwards && page.More != (last.Position.Offset < page.Head.Offset):
		return "More is wrong"
	case r.Backwards && r.From.Epoch != 0 && last.Position.Offset+1 != r.From.Offset:
		return "it does not end before From"
	case r.Backwards && r.From.Epoch == 0 && last.Position != page.Head:
		return "it does not end with the newest message"
	}
	return ""
}

func describePage(p pubsub.Page) string {
	text := "messages"
	for i, m := range p.Messages {
		if i == 8 && len(p.Messages) > 10 {
			text += fmt.Sprintf(" … %d more", len(p.Messages)-i)
			break
		}
		text += fmt.Sprintf(" %d(tag %x, previous %x)", m.Position.Offset, m.Position.Tag, m.Previous)
	}
	return text + fmt.Sprintf(", head %+v, more %v, lost %q", p.Head, p.More, p.Lost)
}

// all reads what a log keeps, and ends the part after a failure.
func (s *logSuite) all(l pubsub.Log, topic string, h pubsub.History) pubsub.Page {
	s.Helper()
	page, ok := s.read(l, topic, h, pubsub.ReadOptions{Messages: 1 << 20, Bytes: 1 << 30})
	if !ok {
		s.FailNow()
	}
	if page.More || page.Lost != pubsub.LossNone {
		s.broken(wholePages, "all of %s is read, and the page is %s", short(topic), describePage(page))
	}
	return page
}

// sameMessage reports whether two messages agree in what is appended.
func sameMessage(a, b pubsub.Message) bool {
	return a.Topic == b.Topic && a.Overflow == b.Overflow && a.Key == b.Key && a.Except == b.Except && bytes.Equal(a.Frame, b.Frame)
}

// sameEntry reports whether two messages are the same one of a log.
func sameEntry(a, b pubsub.Message) bool {
	return sameMessage(a, b) && a.Position == b.Position && a.Previous == b.Previous
}
