package wire

import (
	"crypto/tls"
	"syscall"
	"time"
)

// secure is a connection under TLS, and what it takes to write to it without waiting.
//
// TLS has no write that does not wait, and one that is cut short ends the connection. So
// the socket below is asked for room first, and is given less than it has. What it has no
// room for is written by [Outbox.drain].
type secure struct {
	*tls.Conn
	raw     syscall.RawConn  // nil: the room of the socket is not known
	look    func(fd uintptr) // made once, as it would be an allocation for every write
	hasRoom bool             // what look has found
	piece   int              // how many bytes are written at once; 0: not known yet

	// With the lock of the Outbox held:

	steps int         // the beginnings and ends of writes
	seen  int         // of them, when the guard was last due
	guard *time.Timer // while there are writes
}

// maxRecord is the most that a record of TLS holds.
const maxRecord = 16 << 10

func newSecure(nc *tls.Conn) *secure {
	t := &secure{Conn: nc}
	if sc, ok := nc.NetConn().(syscall.Conn); ok && canAsk {
		if raw, err := sc.SyscallConn(); err == nil {
			t.raw, t.look = raw, t.ask
		}
	}
	return t
}

func (t *secure) ask(fd uintptr) {
	if t.piece == 0 {
		// At least a third of the buffer of a socket that is writable is free. A
		// short record takes up to twice its size there.
		t.piece = min(sendBuffer(fd)/8, maxRecord)
	}
	t.hasRoom = t.piece > 0 && writable(fd)
}

// tryWrite writes as much of b as the socket takes for certain. It returns errAgain if
// that is nothing.
func (t *secure) tryWrite(b []byte) (int, error) {
	if t.raw == nil {
		return 0, errAgain
	}
	if err := t.raw.Control(t.look); err != nil {
		return 0, err
	}
	if !t.hasRoom {
		return 0, errAgain
	}
	return t.Write(b[:min(len(b), t.piece)])
}

// step is called before and after a write; on nil, for a connection without TLS, it does
// nothing.
//
// The kernel may shrink the buffer between the question and the write, when it is short of
// memory. The write then waits, and the guard aborts the connection after one to two
// timeouts. It is not a deadline of the socket: one would have to be set for each write,
// and cleared, since an old one would fail what TLS itself sends.
func (t *secure) step(o *Outbox) {
	if t == nil {
		return
	}
	t.steps++
	if t.guard == nil && t.raw != nil && !o.gone {
		t.seen = t.steps
		t.guard = time.AfterFunc(o.timeout, func() { t.check(o) })
	}
}

// check runs when the guard is due.
func (t *secure) check(o *Outbox) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.gone:
	case t.steps != t.seen:
		t.seen = t.steps
		t.guard.Reset(o.timeout)
	case t.steps%2 == 1:
		o.timedOut()
	default:
		t.guard = nil // the connection is idle
	}
}

func (t *secure) stop() {
	if t.guard != nil {
		t.guard.Stop()
	}
}
