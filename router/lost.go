package router

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// losses are topics without history of which messages may have been lost on the way to this
// process. They are reported together: a connection to a broker is lost for all topics.
type losses struct {
	mu     sync.Mutex
	topics map[string]struct{} // nil: none
}

// lossPause is how long losses are collected.
const lossPause = 100 * time.Millisecond

// lost takes note of a loss. It does not block.
func (r *Router) lost(topic string) {
	if r.opts.OnLost == nil && !r.opts.SendGaps || isReservedTopic(topic) {
		return
	}
	l := &r.losses
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.topics == nil {
		l.topics = make(map[string]struct{})
		time.AfterFunc(lossPause, r.reportLosses)
	}
	l.topics[topic] = struct{}{}
}

func (r *Router) reportLosses() {
	l := &r.losses
	l.mu.Lock()
	topics := slices.Sorted(maps.Keys(l.topics))
	l.topics = nil
	l.mu.Unlock()
	if r.opts.SendGaps {
		r.sendGaps(topics)
	}
	if r.opts.OnLost == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.fault(Fault{Err: panicError("OnLost", v), Stack: stack()})
		}
	}()
	r.opts.OnLost(topics)
}

// sendGaps sends each connection which of its topics are concerned.
func (r *Router) sendGaps(topics []string) {
	gaps := make(map[*Conn][]string)
	for _, name := range topics {
		r.topics.mu.RLock()
		t := r.topics.m[name]
		r.topics.mu.RUnlock()
		if t == nil {
			continue
		}
		t.mu.RLock()
		for _, m := range t.members {
			gaps[m.conn] = append(gaps[m.conn], name)
		}
		t.mu.RUnlock()
	}
	for c, names := range gaps {
		c.sendGap(names)
	}
}

func (c *Conn) sendGap(topics []string) {
	b := newOutgoing()
	defer b.free()
	b.WriteString(`{"type":"` + typeGap + `","payload":{"topics":[`)
	for i, name := range topics {
		if i > 0 {
			b.WriteByte(',')
		}
		b.string(name)
	}
	b.WriteString("]}}")
	if c.enqueue(b) == nil {
		c.stream.Out.Flush()
	}
}
