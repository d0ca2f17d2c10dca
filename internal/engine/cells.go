package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/table"
)

// cellStripes is how many locks there are for cells of one scope.
const cellStripes = 64

// cells are the states that the keys of one scope share. Their number is fixed, and the
// hash of a key selects its cell. Their memory is allocated at once. They begin as zeros
// and do not expire one by one: drop removes all of them.
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
	until   int64 // the instant from which on nothing in its cells counts
	scratch []int64
	dropped bool
	_       [128 - 6*8]byte
}

var cellsMade atomic.Uint64

// newCells makes n cells of width words each. They are not dropped before the instant
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

// A cell is one of the cells, and locked. Every 64th cell has the same lock.
type cell struct {
	*stripe
	words []int64
}

// at returns the cell of a key. Its lock must be held.
func (c *cells) at(h table.Hash) cell {
	i := c.index(h)
	first := int(i) * c.width
	return cell{&c.stripes[i%cellStripes], c.words[first : first+c.width]}
}

// lock locks and returns the cell of a key. Order of locks: those of tables first, then
// those of cells.
func (c *cells) lock(h table.Hash) cell {
	one := c.at(h)
	one.mu.Lock()
	return one
}

// addTo adds the cell of a key to the locks that are taken together.
func (c *cells) addTo(l *table.Locks, h table.Hash) {
	n := c.index(h) % cellStripes
	l.AddLast(c.id*cellStripes+n, &c.stripes[n].mu)
}

// load returns a copy of the state in the cell, to be used until the cell is unlocked
// or loaded again.
func (c cell) load(plan *Plan) []int64 {
	if c.scratch == nil { // as long as the longest state, plus what a charge adds to its logs
		c.scratch = make([]int64, 0, 3*len(c.words)+2*MaxParts)
	}
	return plan.unpack(c.scratch[:0], c.words)
}

// store writes a state. It counts until the instant until.
func (c cell) store(plan *Plan, state []int64, until int64) {
	plan.pack(c.words, state)
	c.until = max(c.until, until)
}

// idle reports whether nothing in the cells of the stripe has counted for at least grace.
func (s *stripe) idle(now, grace int64) bool { return s.until+grace <= now }

// drop removes all cells if none of them is locked and all are idle. It then calls remove
// while it holds all locks, and returns true.
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
