package wire

// latest finds a queued frame by its key. In a short queue it looks at each frame. A long
// one gets an index, so that a client that is far behind, on a topic with thousands of keys,
// costs its publishers no more than others.
//
// Frames are numbered in the order of the queue: queue[head] has the number first. Where
// frames leave out of order, the index is dropped; it is made again when it has been missed
// often enough to pay for that.
type latest struct {
	index  map[string]int // the numbers of the frames with keys; nil: there is none
	first  int
	missed int // calls of find without it
}

const (
	indexedFrom = 64 // frames
	missedLimit = 128
)

// find returns the position of the queued frame with the key, of which nothing is being
// written, or -1.
func (o *Outbox) find(key string) int {
	start := o.unwritten()
	l := &o.latest
	if len(o.queue)-start >= indexedFrom && l.index == nil {
		if l.missed++; l.missed >= missedLimit {
			o.makeIndex()
		}
	}
	if l.index != nil {
		if n, ok := l.index[key]; ok && n-l.first+o.head >= start {
			return n - l.first + o.head
		}
		return -1
	}
	for i := start; i < len(o.queue); i++ {
		if s := &o.queue[i]; s.drop && s.key == key {
			return i
		}
	}
	return -1
}

func (o *Outbox) makeIndex() {
	l := &o.latest
	l.index, l.missed = make(map[string]int, len(o.queue)), 0
	for i := o.head; i < len(o.queue); i++ {
		o.indexed(i)
	}
}

// indexed is called for each new frame at the end of the queue.
func (o *Outbox) indexed(i int) {
	if l := &o.latest; l.index != nil && o.queue[i].key != "" {
		l.index[o.queue[i].key] = l.first + i - o.head
	}
}

// leaves is called before queue[head] leaves.
func (l *latest) leaves(key string) {
	if l.index != nil && key != "" && l.index[key] == l.first {
		delete(l.index, key)
	}
	l.first++
}

// drop removes the index.
func (l *latest) drop() { l.index, l.missed = nil, 0 }
