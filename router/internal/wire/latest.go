package wire

// latest finds a queued frame by its key. In a short queue it looks at each frame. A long
// one gets an index, so that a client that is far behind, on a topic with thousands of keys,
// costs its publishers no more than others.
//
// Frames are numbered by their places in the queue: queue[head] has the number first. They keep their numbers when
// others are dropped. The index is made when as many frames have been looked at without it as pay for it, and lasts
// until the queue is empty.
type latest struct {
	index  map[string]int // the numbers of the frames with keys; nil: there is none
	first  int
	looked int // frames, without the index
}

const (
	indexedFrom = 64 // frames
	lookedLimit = 128 * indexedFrom
)

// find returns the position of the queued frame with the key, of which nothing is being
// written, or -1.
func (o *Outbox) find(key string) int {
	start := o.unwritten()
	l := &o.latest
	if n := len(o.queue) - start; n >= indexedFrom && l.index == nil {
		if l.looked += n; l.looked >= lookedLimit {
			l.index, l.looked = make(map[string]int, n), 0
			o.renumber()
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

// renumber makes the index anew, if there is one.
func (o *Outbox) renumber() {
	clear(o.latest.index)
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

// leaves is called before queue[head+i] leaves or is dropped.
func (l *latest) leaves(key string, i int) {
	if l.index != nil && key != "" && l.index[key] == l.first+i {
		delete(l.index, key)
	}
}

// drop removes the index.
func (l *latest) drop() { l.index, l.looked = nil, 0 }
