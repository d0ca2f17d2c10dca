package memory

import (
	"container/heap"
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
	byAge    priorityQueue[*topicLog] // by oldest
	sweeping bool                     // a timer calls sweep
	next     int                      // place of the log behind the next one that sweep looks at; only for sweep
}

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
	l := &topicLog{topic: topic, epoch: newEpoch(), history: h, used: now, oldest: now}
	s.byTopic[topic] = l
	heap.Push(&s.byAge, l)
	s.bytes.Add(int64(l.bytes()))
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

// endLog removes a log. s.mu and l.mu are held.
func (s *logs) endLog(l *topicLog) {
	l.ended = true
	delete(s.byTopic, l.topic)
	heap.Remove(&s.byAge, l.place)
	s.bytes.Add(-int64(l.bytes()))
}

// makeRoom removes the oldest of all logs while they take too much. No lock but a log's turn is held.
func (s *logs) makeRoom() {
	if s.bytes.Load() > s.limit() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for s.bytes.Load() > s.limit() && s.removeOldest() {
		}
	}
}

// removeOldest removes the oldest message of all logs, or ends the log that has not been used for
// longest. It returns false if only one log without messages is left.
func (s *logs) removeOldest() bool {
	l := s.byAge[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.since() != l.oldest: // it is not where it belongs
	case l.kept.n > 0:
		s.bytes.Add(-int64(l.removeOldest()))
		s.removed.Add(1)
	case len(s.byAge) == 1:
		return false
	default:
		s.endLog(l)
		s.ended.Add(1)
		return true
	}
	l.oldest = l.since()
	heap.Fix(&s.byAge, 0)
	return true
}

// sweepLater has sweep called, unless there is nothing to look for. s.mu is held.
func (s *logs) sweepLater() {
	if !s.sweeping && (len(s.byAge) > 0 || !s.ids.empty()) {
		s.sweeping = true
		time.AfterFunc(sweepEvery, s.sweep)
	}
}

// sweep removes what is too old from some logs, and goes on with the others the next time.
func (s *logs) sweep() {
	s.bytes.Add(-int64(s.ids.sweep(clock())))
	s.mu.RLock()
	logs := len(s.byAge)
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

// sweepBatch looks at the logs in these places. It begins with the last, because a removal
// changes the places behind it. Logs that come to other places during it are looked at the next time.
func (s *logs) sweepBatch(from, to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	for i := min(to, len(s.byAge)) - 1; i >= from; i-- {
		l := s.byAge[i]
		l.mu.Lock()
		s.bytes.Add(-int64(l.expire(now)))
		if l.over(now) {
			s.endLog(l)
		}
		l.mu.Unlock()
	}
}
