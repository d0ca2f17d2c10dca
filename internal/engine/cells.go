package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/table"
)

// cellStripes is how many locks there are for cells of one scope.
const cellStripes = 64

// cells are the states that the keys of one scope share: a fixed number of them, of
// which a key has the one that its hash says. They take their memory at once, begin
// as zeros and never expire one by one; drop gives up all of them.
type cells struct {
	id      uint64
	n       uint64
	width   int
	words   []int64
	stripes [cellStripes]stripe
}

// stripe is a lock for every 64th cell.
type stripe struct {
	mu      sync.Mutex
	until   int64 // the instant at which nothing in its cells counts any more
	scratch []int64
	dropped bool
	_       [128 - 6*8]byte
}

var cellsMade atomic.Uint64

// newCells makes n cells of so many words. They are not dropped before the instant
// until.
func newCells(n, width int, until int64) *cells {
	c := &cells{id: cellsMade.Add(1), n: uint64(n), width: width, words: make([]int64, n*width)}
	for i := range c.stripes {
		c.stripes[i].until = until
	}
	return c
}

func (c *cells) bytes() int { return 8 * len(c.words) }

func (c *cells) index(h table.Hash) uint64 {
	hi, _ := bits.Mul64(h.Low(), c.n)
	return hi
}

// a cell is one of cells, locked with every 64th of the others.
type cell struct {
	*stripe
	words []int64
}

// at returns a key's cell, which is locked already.
func (c *cells) at(h table.Hash) cell {
	i := c.index(h)
	first := int(i) * c.width
	return cell{&c.stripes[i%cellStripes], c.words[first : first+c.width]}
}

// lock returns a key's cell, locked. Who waits for a cell may hold locks of a table;
// who holds a cell must not wait for those.
func (c *cells) lock(h table.Hash) cell {
	one := c.at(h)
	one.mu.Lock()
	return one
}

// addTo notes the cell of a key that is to be locked with others.
func (c *cells) addTo(l *table.Locks, h table.Hash) {
	n := c.index(h) % cellStripes
	l.AddLast(c.id*cellStripes+n, &c.stripes[n].mu)
}

// load returns a copy of the state in the cell, to be used until the cell is unlocked
// or loaded again.
func (c cell) load(plan *Plan) []int64 {
	if c.scratch == nil { // the longest state, and what a charge adds to its logs
		c.scratch = make([]int64, 0, 3*len(c.words)+2*MaxParts)
	}
	return plan.unpack(c.scratch[:0], c.words)
}

// store writes a state that counts up to the instant until.
func (c cell) store(plan *Plan, state []int64, until int64) {
	plan.pack(c.words, state)
	c.until = max(c.until, until)
}

// idle reports whether nothing under the lock of the cell has counted for as long as
// grace.
func (s *stripe) idle(now, grace int64) bool { return s.until+grace <= now }

// drop gives up all cells if none of them is locked and all are idle. It calls remove
// before any can be locked again, and reports whether it did.
func (c *cells) drop(now, grace int64, remove func()) bool {
	locked, idle := 0, true
	for idle && locked < cellStripes && c.stripes[locked].mu.TryLock() {
		idle = c.stripes[locked].idle(now, grace)
		locked++
	}
	dropped := idle && locked == cellStripes
	if dropped {
		remove()
	}
	for i := range locked {
		c.stripes[i].dropped = dropped
		c.stripes[i].mu.Unlock()
	}
	return dropped
}
