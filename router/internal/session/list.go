// Package session keeps the connections of a router, from the first to the last.
//
// Needed is where a connection keeps its place in the list. Promised: adding and removing one takes the same short time
// however many there are, and no memory; whoever waits until there is none is woken when the last has been removed. All
// methods may be called from any goroutine.
package session

import (
	"context"
	"sync"
	"sync/atomic"
)

// List is a list of connections. Link is set before the first is added.
type List[C any] struct {
	Link func(*C) *Link[C] // the place that a connection keeps

	mu      sync.Mutex
	first   *C
	n       atomic.Int64  // changed with mu held
	emptied chan struct{} // closed when the last is removed; nil: nobody waits
}

// Link is a connection's place in a list.
type Link[C any] struct{ prev, next *C }

// Add adds a connection that is not in the list.
func (l *List[C]) Add(c *C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Link(c).next = l.first
	if l.first != nil {
		l.Link(l.first).prev = c
	}
	l.first = c
	l.n.Add(1)
}

// Remove removes a connection that is in the list.
func (l *List[C]) Remove(c *C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := l.Link(c)
	if link.prev != nil {
		l.Link(link.prev).next = link.next
	} else {
		l.first = link.next
	}
	if link.next != nil {
		l.Link(link.next).prev = link.prev
	}
	*link = Link[C]{}
	l.n.Add(-1)
	if l.first == nil && l.emptied != nil {
		close(l.emptied)
		l.emptied = nil
	}
}

// All returns the connections that are in the list now, the latest first.
func (l *List[C]) All() []*C {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*C
	for c := l.first; c != nil; c = l.Link(c).next {
		all = append(all, c)
	}
	return all
}

// Len is the number of connections in the list. It takes no lock.
func (l *List[C]) Len() int64 { return l.n.Load() }

// AwaitEmpty waits until there is no connection, or ctx is done: then it returns its error.
func (l *List[C]) AwaitEmpty(ctx context.Context) error {
	emptied := l.whenEmpty()
	if emptied == nil {
		return nil
	}
	select {
	case <-emptied:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whenEmpty returns what is closed when the last connection is removed, the same for all that wait; nil: there is none.
func (l *List[C]) whenEmpty() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		return nil
	}
	if l.emptied == nil {
		l.emptied = make(chan struct{})
	}
	return l.emptied
}
