package hub

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/router/internal/frame"
)

// gaps are topics without history of which messages may have been lost on the way to this
// process. They are reported together: a connection to a broker is lost for all topics.
type gaps struct {
	mu     sync.Mutex
	topics map[string]struct{} // nil: none
}

// lossPause is how long losses are collected.
const lossPause = 100 * time.Millisecond

// lost records a loss. It does not block.
func (h *Hub) lost(topic string) {
	if h.OnLost == nil && !h.SendGaps || IsReserved(topic) {
		return
	}
	g := &h.gaps
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.topics == nil {
		g.topics = make(map[string]struct{})
		time.AfterFunc(lossPause, h.reportLosses)
	}
	g.topics[topic] = struct{}{}
}

func (h *Hub) reportLosses() {
	g := &h.gaps
	g.mu.Lock()
	topics := slices.Sorted(maps.Keys(g.topics))
	g.topics = nil
	g.mu.Unlock()
	if h.SendGaps {
		h.sendGaps(topics)
	}
	if h.OnLost != nil {
		h.OnLost(topics)
	}
}

// sendGaps sends each connection which of its topics are concerned.
func (h *Hub) sendGaps(topics []string) {
	gaps := make(map[*Peer][]string)
	for _, name := range topics {
		h.Each(name, func(p *Peer) { gaps[p] = append(gaps[p], name) })
	}
	for p, names := range gaps {
		p.sendGap(names)
	}
}

func (p *Peer) sendGap(topics []string) {
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
	if p.Queue(b) == nil { // or the connection is being closed
		p.Out.Flush()
	}
}
