package pubsubtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/suitetest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

// keeper is the simplest log that is right: it keeps everything, and computes at each Read what is
// left of it. It is one process's way to the archive. A fault, which has a name, makes it wrong.
type keeper struct {
	*process
	*archive
	ids map[string]pubsub.Position // with the fault IDsOfOneProcess
}

type archive struct {
	fault string
	mu    sync.Mutex
	logs  map[string]*archived
	cut   map[*process]bool // whose subscriptions are cut off
	later func()            // comes behind the next message
}

type archived struct {
	epoch    uint64
	messages []pubsub.Message // with their positions; all that were ever appended
	times    []time.Time
	removed  int // how many of them are not in the log any more
	history  pubsub.History
	ids      map[string]pubsub.Position
	used     time.Time
}

// age is by the real clock, as that of the suite is.
func age(at time.Time) time.Duration { return time.Since(at) }

func (a *archive) is(fault string) bool { return a.fault == fault }

func (a *archive) log(topic string, h pubsub.History) *archived {
	if a.is("OneLogForSimilarTopics") {
		topic = strings.ToLower(topic)
	}
	l := a.logs[topic]
	if l != nil && a.is("EndsWithItsMessages") && age(l.used) > 2*l.history.Age {
		l = nil
	}
	if l == nil {
		l = &archived{epoch: rand.Uint64(), history: h, ids: make(map[string]pubsub.Position)}
		if a.is("OneEpoch") {
			l.epoch = 1
		}
		a.logs[topic] = l
	}
	l.used = time.Now()
	return l
}

// trim removes what is too much.
func (a *archive) trim(l *archived) {
	h := l.history
	n, size := len(l.messages)-l.removed, 0
	for _, m := range l.messages[l.removed:] {
		size += len(m.Frame)
	}
	most := h.Messages
	switch {
	case a.is("KeepsATenthMore"):
		most += most / 10
	case a.is("KeepsOneLess"):
		most = max(1, most-1)
	}
	for ; n > 0; n-- {
		tooLarge := size > h.Bytes && (n > 1 || a.is("LastRemovedForItsSize")) && !a.is("BytesUnbounded")
		if a.is("BytesInclusive") && size >= h.Bytes && n > 1 {
			tooLarge = true
		}
		oldest, newest := age(l.times[l.removed]), age(l.times[len(l.times)-1])
		tooOld := oldest > h.Age && !a.is("AgeUnbounded") || a.is("ExpiresEarly") && oldest > h.Age/2
		if a.is("ExpiresTogether") {
			tooOld = newest > h.Age
		}
		if n <= most && !tooLarge && !tooOld {
			return
		}
		size -= len(l.messages[l.removed].Frame)
		l.removed++
	}
}

func (a *archive) head(l *archived) pubsub.Position {
	if len(l.messages) == 0 || a.is("HeadRemovedWithItsMessage") && l.removed == len(l.messages) {
		return pubsub.Position{Epoch: l.epoch}
	}
	return l.messages[len(l.messages)-1].Position
}

func (k *keeper) Append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	if err := ctx.Err(); err != nil && !k.is("CancelledSucceedsAndDoesNothing") {
		return pubsub.Position{}, err
	} else if err != nil {
		return pubsub.Position{Epoch: 1, Offset: 1, Tag: 1}, nil
	}
	if err := h.Check(); err != nil && !k.is("AnyHistory") {
		return pubsub.Position{}, err
	}
	if len(id) > pubsub.MaxIDLength {
		switch {
		case k.is("LongIDsCut"):
			id = id[:pubsub.MaxIDLength]
		default:
			return pubsub.Position{}, errors.New("the id is too long")
		}
	}
	switch {
	case k.is("IDsFolded"):
		id = strings.ToLower(id)
	case k.is("IDsTrimmed"):
		id = strings.TrimSpace(id)
	case k.is("IDsAsText"):
		id = strings.ToValidUTF8(id, "?")
	}
	var before []*subscription
	if k.is("SubscribersBeforeTheLog") {
		before = k.subscribers(m.Topic)
		runtime.Gosched()
	}
	k.archive.mu.Lock()
	l := k.log(m.Topic, h)
	ids := l.ids
	switch {
	case k.is("IDsOfOneProcess"):
		ids, id = k.ids, m.Topic+id
	case k.is("IDsForAllTopics"):
		ids = k.log("ids", h).ids
	}
	earlier, known := ids[id]
	if k.is("IDLookedUpBefore") && id != "" {
		k.archive.mu.Unlock()
		runtime.Gosched()
		k.archive.mu.Lock()
	}
	if known && k.is("IDForgottenWithItsMessage") && int(earlier.Offset) <= l.removed {
		known = false
	}
	if known && (id != "" || k.is("EmptyIDs")) && id != m.Topic {
		defer k.archive.mu.Unlock()
		if k.is("IDDeliveredAgain") {
			for _, s := range k.subscribers(m.Topic) {
				s.push(l.messages[earlier.Offset-1])
			}
		}
		if k.is("IDReturnsHead") {
			return k.head(l), nil
		}
		return earlier, nil
	}
	head := k.head(l)
	stored := pubsub.Message{Topic: m.Topic, Frame: m.Frame, Overflow: m.Overflow, Key: m.Key, Except: m.Except, Previous: head.Tag,
		Position: pubsub.Position{Epoch: l.epoch, Offset: head.Offset + 1, Tag: rand.Uint32() | 1}}
	switch {
	case k.is("Holes") && head.Offset%10 == 9:
		stored.Position.Offset++
	case k.is("TagsAreOffsets"):
		stored.Position.Tag = uint32(stored.Position.Offset)
	case k.is("NoPrevious"):
		stored.Previous = 0
	case k.is("LostIsKept"):
		stored.Lost = m.Lost
	case k.is("FrameCut"):
		stored.Frame = m.Frame[:min(len(m.Frame), 1<<20-1)]
	case k.is("FrameAsText"):
		stored.Frame = bytes.ToValidUTF8(m.Frame, []byte("?"))
	case k.is("ExceptNotKept"):
		stored.Except = ""
	}
	l.messages = append(l.messages, stored)
	l.times = append(l.times, time.Now())
	l.history = h
	k.trim(l)
	ids[id] = stored.Position
	if !k.is("SubscribersBeforeTheLog") {
		before = k.subscribers(m.Topic)
	}
	delivered := stored
	switch {
	case k.is("DeliveredWithoutPrevious"):
		delivered.Previous = 0
	case k.is("DeliveredWithoutPosition"):
		delivered.Position = pubsub.Position{}
	}
	if k.is("DeliveredAfterTheLog") {
		k.archive.mu.Unlock()
		runtime.Gosched()
	} else {
		defer k.archive.mu.Unlock()
	}
	k.deliver(delivered, before)
	if k.is("ReturnsOffsetAlone") {
		return pubsub.Position{Epoch: l.epoch, Offset: stored.Position.Offset, Tag: 1}, nil
	}
	return stored.Position, nil
}

func (k *keeper) Replace(_ context.Context, topic string, at pubsub.Position, frame []byte) (bool, error) {
	k.archive.mu.Lock()
	defer k.archive.mu.Unlock()
	l := k.logs[topic]
	if l == nil && k.is("ReplaceBeginsALog") {
		l = k.log(topic, pubsub.History{Messages: 1, Bytes: 1, Age: time.Hour})
	}
	if l == nil || at.Offset > uint64(len(l.messages)) || at.Offset == 0 || at.Offset <= uint64(l.removed) && !k.is("ReplacesWhatWasRemoved") {
		return false, nil
	}
	m := &l.messages[at.Offset-1]
	if m.Position != at && !k.is("ReplaceChecksTheOffsetAlone") {
		return false, nil
	}
	switch {
	case k.is("ReplacesNothing"):
		return true, nil
	case k.is("ReplacedFrameCut"):
		frame = frame[:min(len(frame), 100)]
	case k.is("ReplacedIsNew"):
		m.Position.Tag++
	case k.is("ReplacedIsDelivered"):
		m.Frame = frame
		k.deliver(*m, k.subscribers(topic))
	}
	m.Frame = frame
	return true, nil
}

func (k *keeper) Publish(ctx context.Context, m pubsub.Message) error {
	if k.is("PublishedIsKept") {
		_, err := k.Append(ctx, m, pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: time.Hour}, "")
		return err
	}
	if !k.is("PublishedAsItIs") {
		m.Lost, m.More, m.Previous, m.Position = false, false, 0, pubsub.Position{}
	}
	k.archive.mu.Lock()
	defer k.archive.mu.Unlock()
	k.deliver(m, k.subscribers(m.Topic))
	return nil
}

func (a *archive) deliver(m pubsub.Message, to []*subscription) {
	for _, s := range to {
		s.push(m)
	}
	if a.later != nil {
		a.later()
		a.later = nil
	}
}

// subscribers are those that a message reaches.
func (k *keeper) subscribers(topic string) (to []*subscription) {
	k.process.mu.Lock()
	defer k.process.mu.Unlock()
	for _, s := range k.subs[topic] {
		if !k.cut[s.process] {
			to = append(to, s)
		}
	}
	return to
}

func (k *keeper) Read(ctx context.Context, topic string, h pubsub.History, r pubsub.ReadOptions) (page pubsub.Page, err error) {
	if err := cmpErr(ctx.Err(), h.Check()); err != nil && !k.is("AnyHistory") {
		return page, err
	}
	k.archive.mu.Lock()
	defer k.archive.mu.Unlock()
	if k.is("ReadBeginsNothing") && k.logs[topic] == nil {
		return page, nil
	}
	l := k.log(topic, h)
	k.trim(l)
	page.Head = k.head(l)
	if k.is("HeadBeforeThePage") {
		k.archive.mu.Unlock()
		runtime.Gosched()
		k.archive.mu.Lock()
	}
	part := l.messages[l.removed:]
	if from := r.From; from != (pubsub.Position{}) {
		at, tag := int(min(from.Offset, 1<<53)), uint32(0)
		if at > 0 && at <= len(l.messages) {
			tag = l.messages[at-1].Position.Tag
		}
		oldest := l.removed + 1
		isHead := at == len(l.messages)
		switch {
		case from.Epoch != l.epoch && !k.is("EpochNotChecked"):
			page.Lost = pubsub.LossEpoch
		case at > len(l.messages) && k.is("BehindTheHeadIsEmpty"):
			return page, nil
		case at > len(l.messages):
			page.Lost = pubsub.LossRewound
		case at < oldest-1 && k.is("TrimmedInSilence"):
		case at < oldest-1, r.Backwards && at < oldest && at > 0 && !isHead, k.is("OldestNeedsOneBefore") && at < oldest && at > 0 && !isHead:
			page.Lost = pubsub.LossTrimmed
		case tag != from.Tag && !k.is("TagNotChecked") && (!k.is("TagOfTheHeadNotChecked") || !isHead):
			page.Lost = pubsub.LossRewound
		case r.Backwards:
			part = part[:max(0, at-1-l.removed)]
		case k.is("FromIsRead") && at > l.removed:
			part = part[at-l.removed-1:]
		default:
			part = part[at-l.removed:]
		}
		if page.Lost != pubsub.LossNone {
			if k.is("RewoundIsTrimmed") && page.Lost == pubsub.LossRewound {
				page.Lost = pubsub.LossTrimmed
			}
			return page, nil
		}
	}
	n, size := 0, 0
	for n < min(r.Messages, len(part)) {
		next := part[n]
		if r.Backwards {
			next = part[len(part)-1-n]
		}
		size += len(next.Frame)
		if size > r.Bytes && (n > 0 || k.is("FirstMustFit")) && !k.is("PageBytesUnbounded") {
			break
		}
		n++
	}
	if k.is("ShortPages") {
		n = min(n, 20)
	}
	page.More = n < len(part)
	switch {
	case k.is("MoreNever"):
		page.More = false
	case k.is("MoreWhenFull"):
		page.More = n == r.Messages
	}
	if r.Backwards && !k.is("BackwardsFromTheOldest") {
		part = part[len(part)-n:]
	}
	page.Messages = slices.Clone(part[:n])
	if r.Backwards && k.is("NewestFirstBackwards") {
		slices.Reverse(page.Messages)
	}
	if k.is("KeyNotRead") {
		for i := range page.Messages {
			page.Messages[i].Key = ""
		}
	}
	return page, nil
}

func cmpErr(errs ...error) error { return errors.Join(errs...) }

func (k *keeper) Heads(ctx context.Context, topics []string) (heads []pubsub.Position, err error) {
	k.archive.mu.Lock()
	defer k.archive.mu.Unlock()
	if k.is("HeadsSorted") {
		topics = slices.Sorted(slices.Values(topics))
	}
	for _, topic := range topics {
		l := k.logs[topic]
		if k.is("OneLogForSimilarTopics") {
			l = k.logs[strings.ToLower(topic)]
		}
		switch {
		case l != nil:
			heads = append(heads, k.head(l))
		case k.is("HeadsBegin"):
			heads = append(heads, k.head(k.log(topic, pubsub.History{Messages: 1, Bytes: 1, Age: time.Second})))
		case !k.is("HeadsSkip"):
			heads = append(heads, pubsub.Position{})
		}
	}
	return heads, nil
}

func (a *archive) loseTail(topic string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.logs[topic]
	l.messages = slices.Clone(l.messages[:len(l.messages)-n])
	l.times = slices.Clone(l.times[:len(l.messages)])
	for id, p := range l.ids {
		if int(p.Offset) > len(l.messages) {
			delete(l.ids, id)
		}
	}
}

func (a *archive) loseLog(topic string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	epoch := a.logs[topic].epoch
	delete(a.logs, topic)
	if a.is("EpochOfTheName") {
		a.logs[topic] = &archived{epoch: epoch, ids: make(map[string]pubsub.Position)}
	}
}

// interrupt drops what is sent to the subscriptions of a process meanwhile.
func (k *keeper) interrupt(meanwhile func()) {
	k.archive.mu.Lock()
	k.cut[k.process] = true
	k.archive.mu.Unlock()
	meanwhile()
	k.archive.mu.Lock()
	defer k.archive.mu.Unlock()
	k.cut[k.process] = false
	report := func() {
		k.process.mu.Lock()
		defer k.process.mu.Unlock()
		for topic, subs := range k.subs {
			for _, s := range subs {
				if s.process == k.process {
					s.push(pubsub.Message{Topic: topic, Lost: true})
				}
			}
		}
	}
	switch {
	case k.is("LossNotReported"):
	case k.is("LossReportedLater"):
		k.later = report
	default:
		report()
	}
}

func openKeepers(fault string) func(*testing.T, int) []pubsub.Log {
	return func(t *testing.T, n int) []pubsub.Log {
		a := &archive{fault: fault, logs: make(map[string]*archived), cut: make(map[*process]bool)}
		logs := make([]pubsub.Log, n)
		for i, b := range open(faultlessServer)(t, n) {
			logs[i] = &keeper{b.(*process), a, make(map[string]pubsub.Position)}
		}
		return logs
	}
}

var faultlessServer fault

var keeperFaults = pubsubtest.LogFaults{
	LoseTail:  func(_ *testing.T, l pubsub.Log, topic string, n int) { l.(*keeper).loseTail(topic, n) },
	LoseLog:   func(_ *testing.T, l pubsub.Log, topic string) { l.(*keeper).loseLog(topic) },
	Interrupt: func(_ *testing.T, l pubsub.Log, meanwhile func()) { l.(*keeper).interrupt(meanwhile) },
}

func TestRightLogPasses(t *testing.T) { pubsubtest.RunLog(t, openKeepers(""), keeperFaults) }

// A rule is empty where several are broken, and chance decides which is found first.
var logFaults = []struct{ name, part, rule string }{
	{"Holes", "DeliveredAsInTheLog", ""},
	{"NoPrevious", "DeliveredAsInTheLog", "a page is a part of the log"},
	{"DeliveredWithoutPrevious", "DeliveredAsInTheLog", "messages are delivered in the order of the log"},
	{"DeliveredWithoutPosition", "DeliveredAsInTheLog", "messages are delivered in the order of the log"},
	{"DeliveredAfterTheLog", "DeliveredAsInTheLog", "messages are delivered in the order of the log"},
	{"ReturnsOffsetAlone", "DeliveredAsInTheLog", "Append returns the position of the message"},
	{"TagsAreOffsets", "LostTail", "a position whose message the store has lost is found"},
	{"SubscribersBeforeTheLog", "NothingIsMissed", "a subscriber that subscribes, reads up to the head"},
	{"HeadBeforeThePage", "NothingIsMissed|ReadingWhileTrimmed", "a page is a part of the log"},
	{"FrameCut", "Appended/MessagesArriveUnchanged", "a message arrives as it was published"},
	{"FrameAsText", "AppendedMessagesAreUnchanged", "a message is delivered and read as it was appended"},
	{"ExceptNotKept", "AppendedMessagesAreUnchanged", "a message is delivered and read as it was appended"},
	{"KeyNotRead", "AppendedMessagesAreUnchanged", "a message is delivered and read as it was appended"},
	{"LostIsKept", "AppendedMessagesAreUnchanged", "a message is delivered and read as it was appended"},
	{"PublishedIsKept", "PublishedMessagesAreNotKept", "messages that are published are delivered without a position"},
	{"PublishedAsItIs", "PublishedMessagesAreNotKept", "messages that are published are delivered without a position"},
	{"ReadBeginsNothing", "ALogBeginsOnce", "a page is a part of the log"},
	{"OneEpoch", "ALogBeginsOnce", "the epoch of a log is random"},
	{"HeadsBegin", "ALogBeginsOnce", "Heads returns the zero Position"},
	{"HeadsSkip", "ManyLogs", "a working log returns a head for each topic"},
	{"HeadsSorted", "ManyLogs", "there may be thousands of logs"},
	{"FromIsRead", "Pages", ""},
	{"BackwardsFromTheOldest", "Pages", ""},
	{"NewestFirstBackwards", "Pages", ""},
	{"FirstMustFit", "Pages", ""},
	{"PageBytesUnbounded", "Pages", ""},
	{"ShortPages", "Pages", "a page has the messages after From"},
	{"MoreNever", "Pages", ""},
	{"MoreWhenFull", "Pages", ""},
	{"EpochNotChecked", "PositionsAreChecked", "nothing is read from a position that the log does not have"},
	{"TagNotChecked", "PositionsAreChecked", ""},
	{"ReplacesNothing", "ReplacedMessages", ""},
	{"ReplacedFrameCut", "ReplacedMessages", ""},
	{"ReplacedIsNew", "ReplacedMessages", ""},
	{"ReplacedIsDelivered", "ReplacedMessages", ""},
	{"ReplaceChecksTheOffsetAlone", "ReplacedMessages", ""},
	{"ReplacesWhatWasRemoved", "ReplacedMessages", ""},
	{"ReplaceBeginsALog", "ReplacedMessages", ""},
	{"TagOfTheHeadNotChecked", "PositionsAreChecked", "nothing is read from a position that the log does not have"},
	{"BehindTheHeadIsEmpty", "PositionsAreChecked", "nothing is read from a position that the log does not have"},
	{"TrimmedInSilence", "PositionsAreChecked", ""},
	{"OldestNeedsOneBefore", "PositionsAreChecked", "nothing is read from a position that the log does not have"},
	{"RewoundIsTrimmed", "PositionsAreChecked", "nothing is read from a position that the log does not have"},
	{"KeepsATenthMore", "MessagesAreBounded", "a log keeps the last messages, at most History.Messages"},
	{"KeepsOneLess", "MessagesAreBounded", "a log keeps the last messages, at most History.Messages"},
	{"BytesUnbounded", "BytesAreBounded", "a log keeps the last messages, at most History.Bytes"},
	{"BytesInclusive", "BytesAreBounded", "a log keeps the last messages, at most History.Bytes"},
	{"LastRemovedForItsSize", "BytesAreBounded", "a log keeps the last messages, at most History.Bytes"},
	{"AgeUnbounded", "AgeIsBounded", "a message that is older than History.Age is not read"},
	{"ExpiresTogether", "AgeIsBounded", "a message that is older than History.Age is not read"},
	{"ExpiresEarly", "AgeIsBounded", "a message is kept until it is older than History.Age"},
	{"HeadRemovedWithItsMessage", "AgeIsBounded", "the position of the last message is kept"},
	{"EndsWithItsMessages", "ALogOutlivesItsMessages", "a log ends no earlier than IDWindow after its last use"},
	{"AnyHistory", "HistoryIsChecked", "a History that Check refuses"},
	{"LongIDsCut", "HistoryIsChecked", "a History that Check refuses"},
	{"IDLookedUpBefore", "AnIDIsAppendedOnce", "an Append with the id of an earlier one adds and delivers nothing"},
	{"IDsOfOneProcess", "AnIDIsAppendedOnce", "an Append with the id of an earlier one adds and delivers nothing"},
	{"IDDeliveredAgain", "AnIDIsAppendedOnce", "an Append with the id of an earlier one adds and delivers nothing"},
	{"IDReturnsHead", "AnIDIsAppendedOnce", "an Append with the id of an earlier one adds and delivers nothing"},
	{"IDsForAllTopics", "IDsAreApart", "an id is taken as it is"},
	{"EmptyIDs", "IDsAreApart", "an id is taken as it is"},
	{"IDsFolded", "IDsAreApart", "an id is taken as it is"},
	{"IDsTrimmed", "IDsAreApart", "an id is taken as it is"},
	{"IDsAsText", "IDsAreApart", "an id is taken as it is"},
	{"IDForgottenWithItsMessage", "IDsOutliveTheirMessages", "an id is known for IDWindow"},
	{"OneLogForSimilarTopics", "LogsAreApart", ""},
	{"CancelledSucceedsAndDoesNothing", "CancelledAppend", "a call with a cancelled context fails with an error or works"},
	{"EpochOfTheName", "LostLog", "a log that was lost is followed by one with another epoch"},
	{"LossNotReported", "InterruptionsAreReported", "messages that a subscription misses are reported"},
	{"LossReportedLater", "InterruptionsAreReported", "messages that a subscription misses are reported"},
}

// TestLogSuiteCatches is TestSuiteCatches for logs.
func TestLogSuiteCatches(t *testing.T) {
	for _, f := range logFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			pattern := "^TestFaultyLog$"
			for part := range strings.SplitSeq(f.part, "/") {
				pattern += fmt.Sprintf("/^(%s)$", part)
			}
			catches(t, pattern, f.name, f.rule)
		})
	}
}

func TestFaultyLog(t *testing.T) {
	name := suitetest.Fault(t)
	setLimit()
	pubsubtest.RunLog(t, openKeepers(name), keeperFaults)
}
