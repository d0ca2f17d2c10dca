package hub

import (
	"context"
	"time"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
)

// Member is a connection's place in a topic.
type Member struct {
	peer  *Peer
	topic *topic

	// guarded by topic.mu
	index   int           // in topic.members, or joining or left
	gone    chan struct{} // closed when it leaves before it has joined; made by the first that waits for that
	onLeave func()        // of Watch, or nil
	ends    *ending       // nil: it does not end by itself
	waits   bool          // counted in topic.waiting, until it joins or leaves
	shown   bool          // to others, or about to be
	resumed bool          // its client has resumed the topic
	grace   uint32        // in ms, for which others see it when its connection is lost

	// guarded by Peer.mu
	joined  bool
	settled chan struct{} // closed when it has joined or left; made when another call waits for that
}

const (
	joining = -1
	left    = -2 // before it could join, if it had not yet
)

// ending is when a membership ends by itself.
type ending struct {
	at    time.Time
	timer *time.Timer
}

// endAt returns the ending of a membership; nil for the zero time.
func (m *Member) endAt(at time.Time) *ending {
	if at.IsZero() {
		return nil
	}
	return &ending{at, time.AfterFunc(time.Until(at), m.end)}
}

// end ends the membership, if it has not ended, and tells the client.
func (m *Member) end() {
	if m.peer.Member(m.topic.name) == m {
		m.dismiss(reasonEnded)
		m.peer.takeOff(m)
	}
}

// limit has the membership end at an instant. A client that can resume it gets a ticket that says so. Of nil, which has
// left meanwhile, there is nothing to end.
func (m *Member) limit(at time.Time) {
	if m == nil {
		return
	}
	t := m.topic
	t.mu.Lock()
	if m.index != left {
		m.ends.stop()
		m.ends = m.endAt(at)
	}
	if m.index >= 0 && t.history != nil {
		m.welcome()
	}
	t.mu.Unlock()
	m.peer.flushUnlessBatched()
}

func (e *ending) stop() {
	if e != nil {
		e.timer.Stop()
	}
}

// until is when the membership ends by itself; zero: it does not. The topic is locked.
func (m *Member) until() (at time.Time) {
	if m.ends != nil {
		at = m.ends.at
	}
	return at
}

// Until is when the membership ends by itself; zero: it does not.
func (m *Member) Until() time.Time {
	m.topic.mu.RLock()
	defer m.topic.mu.RUnlock()
	return m.until()
}

// settle lets other calls for the same topic go on. Peer.mu is held.
func (m *Member) settle() {
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
	}
}

// join puts the member into its topic when that is subscribed to. Without an error the
// member gets what is published from now on; after one it has to leave.
func (m *Member) join(ctx context.Context) error {
	t := m.topic
	t.mu.Lock()
	if m.index != left && (m.peer.hub.Broker == nil || t.subscription != nil) {
		t.admit(m)
		t.mu.Unlock()
		return nil
	}
	t.mu.Unlock()
	if err := m.wait(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.index == left {
		return ErrClosed
	}
	t.waiting-- // for which the subscription was kept
	t.admit(m)
	return nil
}

// wait waits for the subscription of the member's topic. The subscription is kept until the member
// joins or leaves.
func (m *Member) wait(ctx context.Context) error {
	t := m.topic
	t.mu.Lock()
	if m.index == left {
		t.mu.Unlock()
		return ErrClosed
	}
	m.waits = true
	t.waiting++
	if t.subscription != nil {
		t.mu.Unlock()
		return nil
	}
	a, gone := t.await(m.peer.hub), m.leaving()
	t.mu.Unlock()

	var err error
	select {
	case <-a.done:
		err = a.err
	case <-gone:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if m.index == left {
		return ErrClosed
	}
	return err
}

// leaving returns what is closed when the member leaves before it has joined. The topic is locked.
func (m *Member) leaving() <-chan struct{} {
	if m.gone == nil {
		m.gone = make(chan struct{})
	}
	return m.gone
}

// leave takes the member out of its topic, if it is in it, and releases the topic. It has been taken off the list of
// its connection. lost says that this is because the connection is lost.
func (m *Member) leave(lost bool) {
	t := m.topic
	t.mu.Lock()
	switch {
	case m.index >= 0:
		t.remove(m)
	case m.waits:
		t.waiting--
		if m.gone != nil {
			close(m.gone)
		}
	}
	if in := t.subscription; in != nil && in.log != nil {
		delete(in.log.joined, m)
	}
	m.index = left
	m.ends.stop()
	last, shown, onLeave, grace := t.unwanted(), m.shown, m.onLeave, m.graceTime()
	t.mu.Unlock()
	if onLeave != nil {
		onLeave()
	}
	if last != nil {
		last.end()
	}
	h := m.peer.hub
	t.report(h)
	if !lost {
		grace = 0
	}
	if shown {
		h.NotPresent(m.peer, t.name, grace)
	}
	h.table.release(t)
}

// goBack makes a member one that waits, which gets nothing that is published until it has been sent what was published
// before. It reports false if the member does not get what is published, or has gone back before.
func (m *Member) goBack() bool {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.index < 0 || m.resumed || t.history == nil {
		return false
	}
	t.remove(m)
	m.index, m.waits = joining, true
	t.waiting++
	return true
}

// graceTime is for how long others see it when its connection is lost. The topic is locked.
func (m *Member) graceTime() time.Duration { return time.Duration(m.grace) * time.Millisecond }

// Joined returns what the member has joined with, its grace, and whether others see it.
func (m *Member) Joined() (joined []byte, grace time.Duration, shown bool) {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if in := t.subscription; in != nil && in.log != nil {
		joined = in.log.joined[m]
	}
	return joined, m.graceTime(), m.shown
}

// Show has Config.NotPresent called when the member leaves. It returns false if it has left.
func (m *Member) Show(grace time.Duration) bool {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	m.shown = m.index != left
	m.grace = uint32(grace.Milliseconds())
	return m.shown
}

// Watch has f called when the member leaves, and reports that it is the first. Of several calls the first counts. ok is
// false if the member has left: then nothing will be called.
func (m *Member) Watch(f func()) (first, ok bool) {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	if m.index == left {
		return false, false
	}
	if first = m.onLeave == nil; first {
		m.onLeave = f
	}
	return first, true
}

// Send sends the connection a frame that others get as well, if it has not left.
func (m *Member) Send(s *frame.Shared) {
	m.topic.mu.RLock()
	defer m.topic.mu.RUnlock()
	if m.index != left {
		m.peer.Send(s, pubsub.Message{})
	}
}

// HasLeft reports whether the member has left its topic.
func (m *Member) HasLeft() bool {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	return m.index == left
}

// Remember puts what the member has joined with into its tickets for a topic with history, and sends it one.
func (m *Member) Remember(joined []byte) {
	t := m.topic
	if t.history == nil {
		return
	}
	t.mu.Lock()
	if m.index >= 0 {
		f := t.subscription.log
		if f.joined == nil {
			f.joined = make(map[*Member][]byte)
		}
		f.joined[m] = joined
		m.welcome()
	}
	t.mu.Unlock()
	m.peer.flushUnlessBatched()
}
