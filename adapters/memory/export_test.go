package memory

import "github.com/wskit/wskit/pubsub"

// TopicsOf counts the topics with subscribers.
func TopicsOf(of Broker) int {
	b := of.(*broker)
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.topics)
}

// PlacesOf counts the topics with members or watchers.
func PlacesOf(of pubsub.Presence) int {
	p := of.(*presence)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.topics)
}

// LoseTail removes the last messages of a log and their ids, as if they had not been appended.
func LoseTail(of pubsub.Broker, topic string, n int) {
	b := of.(*broker)
	l := b.logs.lock(topic)
	defer l.mu.Unlock()
	for range n {
		l.tag = l.tagBefore(l.kept.n - 1)
		l.offset--
		l.frames -= len(l.kept.at(l.kept.n - 1).frame)
		b.logs.bytes.Add(-int64(l.kept.at(l.kept.n - 1).bytes()))
		l.size -= l.kept.at(l.kept.n - 1).bytes()
		l.kept.n--
	}
	for id, at := range b.logs.ids.young {
		if id.epoch == l.epoch && at.offset > l.offset {
			delete(b.logs.ids.young, id)
		}
	}
}

// LoseLog ends a log.
func LoseLog(of pubsub.Broker, topic string) {
	b := of.(*broker)
	b.logs.mu.Lock()
	defer b.logs.mu.Unlock()
	l := b.logs.byTopic[topic]
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.kept.n > 0 {
		b.logs.bytes.Add(-int64(l.removeOldest()))
	}
	b.logs.endLog(l)
}

// CountLogBytes counts what all logs take. Nothing else may run.
func CountLogBytes(of Broker) (bytes int) {
	b := of.(*broker)
	b.logs.mu.Lock()
	defer b.logs.mu.Unlock()
	for topic, l := range b.logs.byTopic {
		bytes += logBytes + len(topic)
		for i := range l.kept.n {
			e := l.kept.at(i)
			bytes += messageBytes + len(e.frame) + len(e.key) + len(e.except)
		}
	}
	for _, ids := range []map[appendID]appendedAt{b.logs.ids.young, b.logs.ids.old} {
		for id := range ids {
			bytes += idBytes + len(id.id)
		}
	}
	return bytes
}
