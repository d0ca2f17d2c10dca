// Package limitfeed tells clients what is left of the limits that they follow.
//
// Needed are the limits, as middleware reports them, and of the client's connection what Client has. Promised: a client
// gets the state of each of its limits when it asks, and again soon after its messages have changed it: at most one
// frame in 250 ms, in 1 s while messages are refused, and none while it is flooding or does not read. What it gets
// never says more than is left. Bounded are the types it may name, the limits it follows, and how often it may ask;
// PROTOCOL.md has them.
//
// All methods may be called from any goroutine.
package limitfeed

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/router/internal/frame"
)

// Type is the type of the messages.
const Type = "$ws:limits"

const (
	// MaxTypes is the number of types for which a client may follow its limits.
	MaxTypes = 16
	// askEvery is the shortest time between two requests of a client.
	askEvery = time.Second

	// maxLimits is the number of limits, counted for each type separately.
	maxLimits = 64
	// every is the shortest time between two frames, refusedEvery if a message was refused since the last one, and
	// first the time in which messages are collected for the first one.
	every        = 250 * time.Millisecond
	refusedEvery = time.Second
	first        = 20 * time.Millisecond
	// flood is the number of messages refused within refusedEvery at which no frame is sent.
	flood = 50
	// backlog is the number of bytes that wait for the client at which no frame is sent.
	backlog = 16 << 10
)

// Client is the connection of a client. Its methods do not wait.
type Client interface {
	Closing() bool
	// Queued is how many bytes wait to be sent.
	Queued() int
	SendNow(*frame.Buffer) error
}

// Feed has the limits that a client follows. What follows them is told by Report and Passed; a timer sends what has
// changed.
type Feed struct {
	client Client
	types  []string
	asked  time.Time

	mu      sync.Mutex
	seen    []int64 // messages, by the index of the type
	limits  []state
	refused int  // messages since the last frame
	pending bool // the timer runs
	started bool // the request has been answered
	ended   bool // another feed has replaced this one, or the connection has ended
	sent    time.Time
}

// New makes a Feed for messages of some types. It sends nothing before Start.
func New(client Client, types []string, asked time.Time) *Feed {
	return &Feed{client: client, types: types, asked: asked, seen: make([]int64, len(types))}
}

// Wait is for how long the client of a feed, which may be nil, may not ask again.
func (f *Feed) Wait(now time.Time) time.Duration {
	if f == nil {
		return 0
	}
	return askEvery - now.Sub(f.asked)
}

// Start appends the payload of the answer, and the end of its frame, to b. From now on what changes is sent.
func (f *Feed) Start(b *frame.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
	f.encode(b, time.Now())
}

// Reports returns f for the middleware, nil if the client follows no limits.
func (f *Feed) Reports() inbound.Limits {
	if f == nil || len(f.types) == 0 {
		return nil
	}
	return f
}

// Report implements inbound.Limits.
func (f *Feed) Report(l inbound.Limit) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	own := -1
	for i := range f.limits {
		k := &f.limits[i]
		switch {
		case k.Source != l.Source:
		case k.Type == l.Type:
			own = i
		case l.Key != nil && bytes.Equal(k.Key, l.Key): // the same state, for messages of another type
			k.update(&l, now)
		}
	}
	switch {
	case l.Hidden && own >= 0:
		f.limits = slices.Delete(f.limits, own, own+1)
	case l.Hidden:
	case own >= 0:
		k := &f.limits[own]
		k.Key, k.Cost = append(k.Key[:0], l.Key...), l.Cost
		k.update(&l, now)
	case len(f.limits) < maxLimits && slices.Contains(f.types, l.Type):
		k := state{Limit: l}
		k.Key = append([]byte{}, l.Key...)
		k.update(&l, now)
		f.limits = append(f.limits, k)
	}
	f.schedule(now)
}

func (k *state) update(l *inbound.Limit, now time.Time) {
	k.Ceiling, k.Remaining, k.FullAfter, k.Refill, k.Per, k.at = l.Ceiling, l.Remaining, l.FullAfter, l.Refill, l.Per, now
}

// Passed counts a message on which the middleware has decided.
func (f *Feed) Passed(sent []byte, refused bool) {
	if len(f.types) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if refused {
		f.refused++
	}
	for i, typ := range f.types {
		if typ == string(sent) {
			f.seen[i]++
			f.schedule(time.Now())
		}
	}
}

// schedule has the timer send a frame. f.mu is held.
func (f *Feed) schedule(now time.Time) {
	if !f.started || f.pending || f.ended {
		return
	}
	f.pending = true
	time.AfterFunc(max(first, every-now.Sub(f.sent)), f.send)
}

// send sends what is left of the limits, unless it is too early.
func (f *Feed) send() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	if f.client.Closing() {
		f.ended = true
		return
	}
	now := time.Now()
	if wait := f.wait(now); wait > 0 {
		time.AfterFunc(wait, f.send)
		return
	}
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + Type + `","payload":`)
	f.encode(b, now)
	f.pending, f.refused, f.sent = false, 0, now
	_ = f.client.SendNow(b) // or the connection is being closed
}

// wait is the time for which no frame is sent. f.mu is held.
func (f *Feed) wait(now time.Time) time.Duration {
	switch {
	case f.refused >= flood:
		f.refused = 1
		return refusedEvery
	case f.client.Queued() > backlog:
		return refusedEvery
	case f.refused > 0:
		return refusedEvery - now.Sub(f.sent)
	}
	return 0
}

// End has nothing sent any more. f may be nil.
func (f *Feed) End() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}
