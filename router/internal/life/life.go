// Package life says how far a connection is between its opening and its end, and how long
// each phase of closing may take.
//
// # States
//
// A connection is in one state, and only moves down this list. It may leave states out.
//
//	state      sending       messages that come      subscribing   begins when
//	Open       is queued     are handled             works         the handshake is complete
//	Draining   is queued     are refused as          works         the router shuts down
//	                         UNAVAILABLE
//	Closing    fails         are ignored             works, in     either side has sent a close frame,
//	                                                 vain          or the client was too slow
//	Ended      fails         are not read            fails         the connection is taken apart
//
// Whatever the state, handlers that run go on; they are cancelled at Ended. A draining
// connection is closed when no message of it is open.
//
// Beside the state stands whether OnOpen has succeeded, so that OnClose is due: see
// [Life.Announce].
//
// What the outbox of package wire keeps for itself follows: it is closed from when it has
// queued a close frame (Closing), hangs up from Ended, or from the client's close frame,
// and is gone when the socket is closed, which may come before all of them.
//
// # Phases
//
// A connection that is closing is in one phase, and only moves down this list. What ends a
// phase in good time is in the second column. Otherwise the router's timer wheel ends it
// after Phase.Time, by cutting the socket off where Phase.Reset says so.
//
//	phase          is over when                                    after   then
//	AwaitAnswer    the client has answered the close frame         5 s     the connection ends
//	AwaitSlow      likewise, of a client that was too slow         1 s     it is reset, and ends
//	AwaitEvents    events before the client's close are handled    1 s     the connection ends
//	Flush          what is queued has left; the connection ended   5 s     it is reset
//	Over           the socket is closed
package life

import (
	"sync/atomic"
	"time"
)

// State is how far a connection is.
type State uint8

const (
	Open State = iota
	Draining
	Closing
	Ended

	stateBits = 3
	announced = 4
)

// Life is the state of a connection. The zero value is Open. Its methods may be called
// from any goroutine.
type Life struct{ v atomic.Uint32 }

// State returns the state.
func (l *Life) State() State { return State(l.v.Load() & stateBits) }

// To moves on to a state. It reports false if the connection was there already, or is
// further: each state is entered once.
func (l *Life) To(next State) bool {
	return l.change(func(now State) bool { return now < next }, uint32(next), stateBits)
}

// Announce records that the opening has been announced, so that the end has to be. It
// reports false if the connection has ended: then the caller announces the end.
func (l *Life) Announce() bool {
	return l.change(func(now State) bool { return now < Ended }, announced, announced)
}

// Announced reports whether the opening has been announced.
func (l *Life) Announced() bool { return l.v.Load()&announced != 0 }

// change is every transition.
func (l *Life) change(allowed func(State) bool, to, mask uint32) bool {
	for {
		v := l.v.Load()
		if !allowed(State(v & stateBits)) {
			return false
		}
		if l.v.CompareAndSwap(v, v&^mask|to) {
			return true
		}
	}
}

// Phase is a part of closing that has a deadline.
type Phase uint8

const (
	None Phase = iota
	AwaitAnswer
	AwaitSlow
	AwaitEvents
	Flush
	Over
)

var phases = [...]struct {
	time  time.Duration
	reset bool
}{
	AwaitAnswer: {time: 5 * time.Second},
	AwaitSlow:   {time: time.Second, reset: true},
	AwaitEvents: {time: time.Second},
	Flush:       {time: 5 * time.Second, reset: true},
	Over:        {},
}

// Time is how long the phase may take.
func (p Phase) Time() time.Duration { return phases[p].time }

// Reset reports whether the connection is reset at the end of that time.
func (p Phase) Reset() bool { return phases[p].reset }

// Phases is the phase of a connection that is closing, and when that ends. The zero value is None. Its methods may be
// called from any goroutine.
type Phases struct{ v atomic.Int64 } // the end, in ns, before the bits of the phase

const phaseBits = 3

// Enter begins a phase now, unless the connection is in it or in a later one: it reports false then.
func (c *Phases) Enter(p Phase, now time.Duration) bool {
	to := int64(now+p.Time())<<phaseBits | int64(p)
	for {
		v := c.v.Load()
		if p <= phaseOf(v) {
			return false
		}
		if c.v.CompareAndSwap(v, to) {
			return true
		}
	}
}

// Phase returns the phase, and when it ends.
func (c *Phases) Phase() (p Phase, end time.Duration) {
	v := c.v.Load()
	return phaseOf(v), time.Duration(v >> phaseBits)
}

func phaseOf(v int64) Phase { return Phase(v & (1<<phaseBits - 1)) }
