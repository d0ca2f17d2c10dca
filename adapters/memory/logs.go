package memory

import (
	"container/heap"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// logs are all logs of a Broker.
type logs struct {
	max   int // 0 for the default
	bytes atomic.Int64
	ids   appendIDs

	removed, ended atomic.Int64 // before their time

	mu       sync.RWMutex
	byTopic  map[string]*topicLog
	all      []*topicLog
	classes  [classes]priorityQueue[*topicLog] // by oldest
	sweeping bool                              // a timer calls sweep
	next     int                               // slot of the log behind the next one that sweep looks at; only for sweep
}

// Logs are in classes by their sizes, from a power of two to the next; those of less than 256 bytes are in the
// lowest. Messages are removed only from logs of the highest class, so that a large topic removes nothing from small
// ones. An Append has to sort its log anew only when the log grows into a higher class.
const (
	classes = 64
	lowest  = 9
)

func classOf(size int) int { return max(bits.Len(uint(size)), lowest) }

const (
	defaultLogBytes = 256 << 20
	// sweepEvery is how often sweepMost logs are searched for what is too old, batchSize under one
	// lock. Only memory waits for it: reading looks at the time itself.
	sweepEvery = time.Second
	sweepMost  = 10_000
	batchSize  = 1000
)

var started = time.Now()

// clock is a time that is never set back.
func clock() time.Duration { return time.Since(started) }

func (s *logs) limit() int64 {
	if s.max == 0 {
		return defaultLogBytes
	}
	return int64(s.max)
}

// find returns the log of a topic, or nil. It may have ended when its lock is taken.
func (s *logs) find(topic string) *topicLog {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byTopic[topic]
}

// findOrBegin is find, and begins a log if there is none.
func (s *logs) findOrBegin(topic string, h pubsub.History) *topicLog {
	if l := s.find(topic); l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byTopic[topic]; l != nil {
		return l
	}
	if s.byTopic == nil {
		s.byTopic = make(map[string]*topicLog)
	}
	now := clock()
	size := logBytes + len(topic)
	l := &topicLog{topic: topic, epoch: newEpoch(), history: h, used: now, oldest: now,
		size: size, class: classOf(size), slot: len(s.all)}
	s.byTopic[topic] = l
	s.all = append(s.all, l)
	heap.Push(&s.classes[l.class], l)
	s.bytes.Add(int64(l.size))
	s.sweepLater()
	return l
}

// lock returns the log of a topic with its lock held, or nil.
func (s *logs) lock(topic string) *topicLog {
	for {
		l := s.find(topic)
		if l == nil {
			return nil
		}
		if l.mu.Lock(); !l.ended {
			return l
		}
		l.mu.Unlock()
	}
}

// lockOrBegin is lock, and begins a log if there is none. With turn, that is held as well.
func (s *logs) lockOrBegin(topic string, h pubsub.History, turn bool) *topicLog {
	for {
		l := s.findOrBegin(topic, h)
		if turn {
			l.turn.Lock()
		}
		if l.mu.Lock(); !l.ended {
			return l
		}
		l.mu.Unlock()
		if turn {
			l.turn.Unlock()
		}
	}
}

// endLog removes a log without messages. s.mu and l.mu are held.
func (s *logs) endLog(l *topicLog) {
	l.ended = true
	delete(s.byTopic, l.topic)
	heap.Remove(&s.classes[l.class], l.place)
	last := len(s.all) - 1
	s.all[l.slot] = s.all[last]
	s.all[l.slot].slot = l.slot
	s.all[last] = nil
	s.all = s.all[:last]
	s.bytes.Add(-int64(l.size))
}

// classify puts a log where it belongs by its size and its oldest message. s.mu and l.mu are held.
func (s *logs) classify(l *topicLog) {
	heap.Remove(&s.classes[l.class], l.place)
	l.class, l.oldest = classOf(l.size), l.since()
	heap.Push(&s.classes[l.class], l)
}

// grown is called when a log may have become too large for its class, without locks but its turn.
func (s *logs) grown(l *topicLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended && classOf(l.size) > l.class {
		s.classify(l)
	}
}

// makeRoom removes the oldest of the largest logs while all take too much. No lock but a log's turn is held.
func (s *logs) makeRoom() {
	if s.bytes.Load() > s.limit() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for class := classes - 1; class >= lowest && s.bytes.Load() > s.limit(); {
			if len(s.classes[class]) == 0 {
				class--
			} else if !s.removeOldest(class) {
				return
			}
		}
	}
}

// removeOldest removes the oldest message of the logs of a class, or ends the log that has not been used for
// longest. It returns false if only one log without messages is left.
func (s *logs) removeOldest(class int) bool {
	l := s.classes[class][0]
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.since() != l.oldest || classOf(l.size) != class: // it is not where it belongs
	case l.kept.n > 0:
		s.bytes.Add(-int64(l.removeOldest()))
		s.removed.Add(1)
	case len(s.all) == 1:
		return false
	default:
		s.endLog(l)
		s.ended.Add(1)
		return true
	}
	s.classify(l)
	return true
}

// sweepLater has sweep called, unless there is nothing to look for. s.mu is held.
func (s *logs) sweepLater() {
	if !s.sweeping && (len(s.all) > 0 || !s.ids.empty()) {
		s.sweeping = true
		time.AfterFunc(sweepEvery, s.sweep)
	}
}

// sweep removes what is too old from some logs, and goes on with the others the next time.
func (s *logs) sweep() {
	s.bytes.Add(-int64(s.ids.sweep(clock())))
	s.mu.RLock()
	logs := len(s.all)
	s.mu.RUnlock()
	if s.next <= 0 || s.next > logs {
		s.next = logs
	}
	for end := s.next - sweepMost; s.next > max(0, end); s.next -= batchSize {
		s.sweepBatch(max(0, s.next-batchSize), s.next)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeping = false
	s.sweepLater()
}

// sweepBatch looks at the logs in these slots. It begins with the last, because the log of the last slot takes the slot
// of one that ends. Logs that come to other slots during it are looked at the next time.
func (s *logs) sweepBatch(from, to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	for i := min(to, len(s.all)) - 1; i >= from; i-- {
		l := s.all[i]
		l.mu.Lock()
		s.bytes.Add(-int64(l.expire(now)))
		if l.over(now) {
			s.endLog(l)
		}
		l.mu.Unlock()
	}
}
