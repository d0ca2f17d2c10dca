// Package pending is the table of the questions to one client that are open.
//
// A question is asked by one goroutine, which waits; its answer is taken by the one that reads the connection. Needed
// is nothing; A is what an answer has. Promised: each question gets one answer at most, by its id, which no other
// question of the connection has; so many are open at once as the limit says; when the connection ends, all that wait
// know. The methods may be called from any goroutine, and none waits.
package pending

import (
	"strconv"
	"sync"
)

// Prefix is how the ids of questions begin. Those of a client's requests do not; a client that uses it all the same
// confuses itself alone, since the server keeps the two apart.
const Prefix = "$ws:"

// An Outcome is what became of a question.
type Outcome int

// The outcomes.
const (
	Open    Outcome = iota
	Ended           // no answer can come any more
	TooMany         // as many are open as may be
)

// Table are the questions of one connection that its client has not answered. Create it with New.
type Table[A any] struct {
	ended chan struct{}

	mu   sync.Mutex
	open map[string]chan<- A
	last int
	done bool // ended is closed
}

// New makes a Table.
func New[A any]() *Table[A] {
	return &Table[A]{ended: make(chan struct{}), open: make(map[string]chan<- A)}
}

// Ended is closed when no answer can come any more.
func (t *Table[A]) Ended() <-chan struct{} { return t.ended }

// Add opens a question, if fewer than limit are open. Its answer comes once, unless Take takes it off before.
func (t *Table[A]) Add(limit int) (id string, answered <-chan A, o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done:
		return "", nil, Ended
	case len(t.open) >= limit:
		return "", nil, TooMany
	}
	t.last++
	id = Prefix + strconv.Itoa(t.last)
	ch := make(chan A, 1)
	t.open[id] = ch
	return id, ch, Open
}

// Take takes a question off. It returns where its answer goes, without waiting, or nil if it is not open.
func (t *Table[A]) Take(id string) chan<- A {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := t.open[id]
	delete(t.open, id)
	return ch
}

// IsOpen reports whether a question is open.
func (t *Table[A]) IsOpen(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id] != nil
}

// End is called when no answer can come any more. It may be called again.
func (t *Table[A]) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.done = true
		close(t.ended)
	}
}
