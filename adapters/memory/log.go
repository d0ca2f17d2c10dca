package memory

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// topicLog is the log of one topic. Locks are taken in the order turn, logs.mu, mu, appendIDs.mu; while
// a message is delivered, turn alone is held of these.
type topicLog struct {
	// turn is held by an Append until its message is delivered, so that the order of the log is the
	// order of delivery.
	turn sync.Mutex

	mu      sync.Mutex
	topic   string
	epoch   uint64
	offset  uint64 // of the last message
	tag     uint32 // of the last message
	removed uint32 // the tag of the message before the oldest that is kept
	history pubsub.History
	kept    ring
	frames  int           // bytes of the frames that are kept
	size    int           // what the log takes
	used    time.Duration // when Append, Read or Heads was called last
	ended   bool          // it is not to be used any more

	// place is where the log is in its class of logs, and oldest is what that is ordered by: since is no
	// earlier. slot is where it is in logs.all. Under logs.mu.
	place  int
	oldest time.Duration
	slot   int
	class  int // changes under logs.mu and mu
}

func (l *topicLog) before(other *topicLog) bool { return l.oldest < other.oldest }
func (l *topicLog) moveTo(place int)            { l.place = place }

// logEntry is a message in a log.
type logEntry struct {
	frame       []byte
	key, except string
	at          time.Duration
	tag         uint32
	overflow    uint8
}

func (e *logEntry) bytes() int { return messageBytes + len(e.frame) + len(e.key) + len(e.except) }

// What is counted besides the bytes of the caller. A message takes 72 bytes in a ring that may be
// less than full.
const (
	messageBytes = 160
	logBytes     = 300
)

// append adds a message and removes what is too much then. It returns the
// message as it is delivered, and how many bytes the log takes more.
func (l *topicLog) append(m pubsub.Message, h pubsub.History, tag uint32, now time.Duration) (_ pubsub.Message, bytes int) {
	e := logEntry{frame: m.Frame, key: m.Key, except: m.Except, overflow: m.Overflow, at: now, tag: tag}
	bytes = e.bytes()
	l.history, l.used = h, now
	l.kept.push(e)
	l.frames += len(m.Frame)
	l.size += bytes
	l.offset, l.tag = l.offset+1, tag
	for l.kept.n > h.Messages || l.frames > h.Bytes && l.kept.n > 1 {
		bytes -= l.removeOldest()
	}
	return l.message(l.kept.n - 1), bytes - l.expire(now)
}

// replace gives a message another frame, and reports false if it is not kept.
func (l *topicLog) replace(at pubsub.Position, frame []byte) bool {
	if at.Epoch != l.epoch || at.Offset < l.first() || at.Offset > l.offset {
		return false
	}
	e := l.kept.at(int(at.Offset - l.first()))
	if e.tag != at.Tag {
		return false
	}
	l.frames += len(frame) - len(e.frame)
	l.size += len(frame) - len(e.frame)
	e.frame = frame
	return true
}

// expire removes the messages that are too old, and returns how many bytes they took.
func (l *topicLog) expire(now time.Duration) (bytes int) {
	for l.kept.n > 0 && now-l.kept.at(0).at > l.history.Age {
		bytes += l.removeOldest()
	}
	return bytes
}

func (l *topicLog) removeOldest() (bytes int) {
	e := l.kept.at(0)
	bytes = e.bytes()
	l.frames -= len(e.frame)
	l.size -= bytes
	l.removed = e.tag
	l.kept.pop()
	return bytes
}

// since is the time of the oldest message, or of the last use of a log without messages. It never falls.
func (l *topicLog) since() time.Duration {
	if l.kept.n > 0 {
		return l.kept.at(0).at
	}
	return l.used
}

// over reports whether the time of the log is over.
func (l *topicLog) over(now time.Duration) bool {
	idle := now - l.used
	return l.kept.n == 0 && idle > pubsub.IDWindow && idle/2 > l.history.Age
}

func (l *topicLog) head() pubsub.Position {
	return pubsub.Position{Epoch: l.epoch, Offset: l.offset, Tag: l.tag}
}

// tagBefore is the tag of the message before the one with this index in kept; also for the index
// after the last.
func (l *topicLog) tagBefore(i int) uint32 {
	if i == 0 {
		return l.removed
	}
	return l.kept.at(i - 1).tag
}

// first is the offset of the message with the index 0 in kept.
func (l *topicLog) first() uint64 { return l.offset - uint64(l.kept.n) + 1 }

func (l *topicLog) message(i int) pubsub.Message {
	e := l.kept.at(i)
	return pubsub.Message{
		Topic: l.topic, Frame: e.frame, Overflow: e.overflow, Key: e.key, Except: e.except,
		Position: pubsub.Position{Epoch: l.epoch, Offset: l.first() + uint64(i), Tag: e.tag},
		Previous: l.tagBefore(i),
	}
}

// read returns a page. What is too old has been removed.
func (l *topicLog) read(r pubsub.ReadOptions) pubsub.Page {
	page := pubsub.Page{Head: l.head()}
	from, to := 0, l.kept.n // what could be read
	if r.From != (pubsub.Position{}) {
		// at is the index of the message after From, if that is kept or could be the next.
		at := int(r.From.Offset - l.first() + 1)
		switch {
		case r.From.Epoch != l.epoch:
			page.Lost = pubsub.LossEpoch
		case r.From.Offset > l.offset:
			page.Lost = pubsub.LossRewound
		case r.From.Offset+1 < l.first():
			page.Lost = pubsub.LossTrimmed
		case l.tagBefore(at) != r.From.Tag:
			page.Lost = pubsub.LossRewound
		case !r.Backwards:
			from = at
		case at == 0 && to > 0 && r.From.Offset > 0:
			page.Lost = pubsub.LossTrimmed
		default:
			to = max(at-1, 0)
		}
		if page.Lost != pubsub.LossNone {
			return page
		}
	}
	n, bytes := 0, 0
	for ; n < min(r.Messages, to-from); n++ {
		i := from + n
		if r.Backwards {
			i = to - 1 - n
		}
		if bytes += len(l.kept.at(i).frame); bytes > r.Bytes && n > 0 {
			break
		}
	}
	page.More = n < to-from
	if r.Backwards {
		from = to - n
	}
	if n > 0 {
		page.Messages = make([]pubsub.Message, n)
	}
	for i := range page.Messages {
		page.Messages[i] = l.message(from + i)
	}
	return page
}

func newEpoch() uint64 { return max(1, rand.Uint64()) }

func newTag() uint32 { return max(1, rand.Uint32()) }

// ring is a queue of messages in a buffer whose size is a power of two, or 0.
type ring struct {
	buf   []logEntry
	start int
	n     int
}

func (r *ring) at(i int) *logEntry { return &r.buf[(r.start+i)&(len(r.buf)-1)] }

func (r *ring) push(e logEntry) {
	if r.n == len(r.buf) {
		r.resize(max(4, 2*len(r.buf)))
	}
	r.n++
	*r.at(r.n - 1) = e
}

func (r *ring) pop() {
	*r.at(0) = logEntry{}
	r.start++
	r.n--
	if size := len(r.buf) / 4; r.n <= size {
		r.resize(2 * size)
	}
}

func (r *ring) resize(size int) {
	buf := make([]logEntry, size)
	for i := range r.n {
		buf[i] = *r.at(i)
	}
	r.buf, r.start = buf, 0
}
