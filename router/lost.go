package router

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/router/internal/frame"
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
	defer r.containPanic("OnLost", nil, "")
	r.opts.OnLost(topics)
}

// sendGaps sends each connection which of its topics are concerned.
func (r *Router) sendGaps(topics []string) {
	gaps := make(map[*Conn][]string)
	for _, name := range topics {
		r.topics.each(name, func(c *Conn) { gaps[c] = append(gaps[c], name) })
	}
	for c, names := range gaps {
		c.sendGap(names)
	}
}

func (c *Conn) sendGap(topics []string) {
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeGap + `","payload":{"topics":[`)
	for i, name := range topics {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Text(name)
	}
	b.WriteString("]}}")
	_ = c.sendNow(b) // or the connection is being closed
}
