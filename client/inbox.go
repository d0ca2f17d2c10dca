package client

import (
	"context"
	"sync"
)

// inbox has what the handlers of events and the hooks get, in order. One goroutine calls them.
type inbox struct {
	most, mostBytes int

	mu      sync.Mutex
	moved   sync.Cond // with mu: something below has changed
	list    []delivery
	bytes   int
	needed  int // handlers that wait for an answer, which may be behind events
	stopped bool
}

type delivery struct {
	call func(context.Context)
	size int
}

func newInbox(most, mostBytes int) *inbox {
	in := &inbox{most: most, mostBytes: mostBytes}
	in.moved.L = &in.mu
	return in
}

// full is called with mu held. While a handler waits for an answer, there is room for twice as much.
func (in *inbox) full(size int) bool {
	n := 1
	if in.needed > 0 {
		n = 2
	}
	return len(in.list) > 0 && (len(in.list) >= n*in.most || in.bytes+size > n*in.mostBytes)
}

// put waits for room. It returns false, without having added anything, when ctx has ended before, or if a
// handler waits for an answer that cannot be read because the handlers are too slow.
func (in *inbox) put(ctx context.Context, d delivery) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.full(d.size) {
		defer context.AfterFunc(ctx, in.wake)()
	}
	for in.full(d.size) {
		if ctx.Err() != nil || in.needed > 0 {
			return false
		}
		in.moved.Wait()
	}
	in.append(d)
	return true
}

// add does not wait for room. It is for what is rare and small.
func (in *inbox) add(d delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.append(d)
}

// append is called with mu held.
func (in *inbox) append(d delivery) {
	in.list = append(in.list, d)
	in.bytes += d.size
	in.moved.Broadcast()
}

// need is called when a handler begins to wait for an answer, with 1, and with -1 when that has ended.
func (in *inbox) need(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.needed += n
	in.moved.Broadcast()
}

func (in *inbox) wake() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.moved.Broadcast()
}

// stop has run return when it has called all handlers.
func (in *inbox) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopped = true
	in.moved.Broadcast()
}

// run calls the handlers. It returns after stop, and after the handler that runs when ctx ends.
func (in *inbox) run(ctx context.Context) {
	defer context.AfterFunc(ctx, in.stop)()
	for {
		in.mu.Lock()
		for len(in.list) == 0 && !in.stopped {
			in.moved.Wait()
		}
		if len(in.list) == 0 || ctx.Err() != nil {
			in.mu.Unlock()
			return
		}
		d := in.list[0]
		in.list[0] = delivery{}
		in.list = in.list[1:]
		in.bytes -= d.size
		in.moved.Broadcast()
		in.mu.Unlock()
		d.call(ctx)
	}
}
