package wire

import "sync/atomic"

// Traffic counts what many connections read and write. It is on a cache line of its own. A nil
// Traffic counts nothing.
type Traffic struct {
	BytesRead, BytesWritten, FramesWritten atomic.Int64
	// Backlogged is how many connections have output now that the peer does not take at once,
	// and BacklogBytes how much that is.
	Backlogged, BacklogBytes atomic.Int64

	_ [128 - 5*8]byte
}

func (t *Traffic) read(n int) {
	if t != nil {
		t.BytesRead.Add(int64(n))
	}
}

func (t *Traffic) wrote(n int) {
	if t != nil {
		t.BytesWritten.Add(int64(n))
	}
}

func (t *Traffic) finished(frames int32) {
	if t != nil {
		t.FramesWritten.Add(int64(frames))
	}
}

// Count has the stream's traffic counted from now on. It is called before anything is read.
func (s *Stream) Count(t *Traffic) {
	s.Out.mu.Lock()
	defer s.Out.mu.Unlock()
	s.Out.traffic = t
	t.read(s.to - s.from)
}

// account changes the number of bytes that are queued.
func (o *Outbox) account(n int) {
	o.queued += n
	if o.backlog {
		o.traffic.BacklogBytes.Add(int64(n))
	}
}

func (o *Outbox) beginBacklog() {
	if o.traffic == nil {
		return
	}
	o.backlog = true
	o.traffic.Backlogged.Add(1)
	o.traffic.BacklogBytes.Add(int64(o.queued))
}

func (o *Outbox) endBacklog() {
	if !o.backlog {
		return
	}
	o.backlog = false
	o.traffic.Backlogged.Add(-1)
	o.traffic.BacklogBytes.Add(-int64(o.queued))
}
