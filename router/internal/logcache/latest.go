package logcache

import "github.com/wskit/wskit/pubsub"

const (
	// mostLatest and mostLatestBytes bound what a topic keeps of what was delivered last.
	mostLatest      = 512
	mostLatestBytes = 1 << 20
)

// Latest is what was delivered last to the members of a topic, while clients resume it. The caller guards it: no two of
// its methods may be called at the same time.
type Latest struct {
	clients int             // that resume; 0: nothing is kept
	from    pubsub.Position // before the first of list
	list    []Message       // without a gap; never changed, but replaced
	bytes   int
	moved   chan struct{} // nil: nobody waits
}

// Begin keeps messages from now on for a client, until End. at is where the members are.
func (l *Latest) Begin(at pubsub.Position) {
	if l.clients++; l.clients == 1 {
		l.Reset(at)
	}
}

// End ends Begin.
func (l *Latest) End(at pubsub.Position) {
	if l.clients--; l.clients == 0 {
		l.Reset(at)
	}
}

// Keep takes a message that is delivered.
func (l *Latest) Keep(at pubsub.Position, frame []byte) {
	l.move()
	if l.clients == 0 {
		return
	}
	m := Message{At: at, Frame: frame}
	l.list = append(l.list, m)
	l.bytes += m.size()
	for len(l.list) > mostLatest || l.bytes > mostLatestBytes {
		half := len(l.list) / 2
		l.from = l.list[half].At
		l.list = append([]Message(nil), l.list[half+1:]...)
		l.bytes = 0
		for i := range l.list {
			l.bytes += l.list[i].size()
		}
	}
}

// Reset begins anew at a position.
func (l *Latest) Reset(at pubsub.Position) {
	l.move()
	l.from, l.list, l.bytes = at, nil, 0
}

func (l *Latest) move() {
	if l.moved != nil {
		close(l.moved)
		l.moved = nil
	}
}

// Moved is closed when the members have got something.
func (l *Latest) Moved() <-chan struct{} {
	if l.moved == nil {
		l.moved = make(chan struct{})
	}
	return l.moved
}

// After returns what was delivered after a position, if all of that is kept.
func (l *Latest) After(at pubsub.Position) []Message {
	p := page{from: l.from, messages: l.list}
	list, _ := p.after(at)
	return list
}
