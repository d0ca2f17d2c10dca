package redis

import "sync"

// deliveries are the subscriptions that have messages to deliver. A goroutine that has delivered those of one takes the
// next, so a burst on many topics does not need a goroutine for each, whose stack has to grow first.
//
// A call of deliver may take long: its topic has many members, or it waits for a lock. So while subscriptions wait
// here, a further goroutine is ready to run. It runs as soon as there is a CPU for it: because one is idle, or
// because the other goroutines are blocked.
type deliveries struct {
	mu          sync.Mutex
	first, last *subscription // that wait, the oldest first, by subscription.next
	coming      bool          // a goroutine has been started and has taken nothing yet
}

// add has the messages of a subscription delivered. It neither waits here nor is being delivered.
func (d *deliveries) add(s *subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil {
		d.first = s
	} else {
		d.last.next = s
	}
	d.last = s
	d.attend()
}

// attend makes sure that a goroutine comes. d.mu is held.
func (d *deliveries) attend() {
	if !d.coming {
		d.coming = true
		go d.run()
	}
}

func (d *deliveries) run() {
	for s := d.take(true); s != nil; s = d.take(false) {
		s.run()
	}
}

// take returns the subscription that has waited longest, or nil. A goroutine that has just started sets arrived.
func (d *deliveries) take(arrived bool) *subscription {
	d.mu.Lock()
	defer d.mu.Unlock()
	if arrived {
		d.coming = false
	}
	s := d.first
	if s == nil {
		return nil
	}
	if d.first, s.next = s.next, nil; d.first != nil {
		d.attend()
	}
	return s
}
