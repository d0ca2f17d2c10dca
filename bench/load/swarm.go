package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Target is where the load goes.
type Target struct {
	Addr  string // loopback only
	Path  string
	TLS   bool
	Token string // sent as a bearer token; empty: none
	From  string // loopback address that connections come from; empty: the kernel chooses
	// Deflate offers permessage-deflate, which the server has to accept, and sends requests of 1 KiB, compressed.
	Deflate bool
}

// Swarm is a set of open connections to one server, driven by the calling goroutine.
// It is not safe for concurrent use.
type Swarm struct {
	epoll int
	conns []*conn
	buf   []byte
	plain []byte // what of buf was encrypted

	deflate bool // the target is one with Deflate
}

// stallAfter is how long a server may stay silent while answers are owed: it has hung then, however busy the machine
// is.
const stallAfter = time.Minute

// Open connects n times, one after the other. The caller closes the swarm.
func Open(ctx context.Context, target Target, n int) (*Swarm, error) {
	addr, err := loopback(target.Addr)
	if err != nil {
		return nil, err
	}
	if err := raiseOpenFiles(uint64(n) + 100); err != nil {
		return nil, err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("load: epoll: %w", err)
	}
	s := &Swarm{epoll: epoll, buf: make([]byte, 256<<10), deflate: target.Deflate}
	if target.TLS {
		s.plain = make([]byte, 16<<10)
	}
	for range n {
		if err := ctx.Err(); err != nil {
			s.Close()
			return nil, err
		}
		c, err := dial(addr, target)
		if err == nil {
			err = s.add(c)
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("connection %d of %d: %w", len(s.conns)+1, n, err)
		}
	}
	return s, nil
}

// requests are n different requests to be echoed.
func (s *Swarm) requests(n int) requestRing {
	if s.deflate {
		return newDeflatedRing("chat.echo", n)
	}
	return newRequestRing("chat.echo", n)
}

func (s *Swarm) add(c *conn) error {
	if err := s.watch(c.fd, len(s.conns)); err != nil {
		unix.Close(c.fd)
		return err
	}
	s.conns = append(s.conns, c)
	return nil
}

// watch registers the socket of connection i edge-triggered for both directions once, so that a write the socket
// did not take needs no further system call to be noticed.
func (s *Swarm) watch(fd, i int) error {
	event := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     int32(i), // ours to choose: the index, not the descriptor
	}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("load: epoll: %w", err)
	}
	return nil
}

// Close resets every connection.
func (s *Swarm) Close() {
	for _, c := range s.conns {
		unix.Close(c.fd)
	}
	unix.Close(s.epoll)
	s.conns = nil
}

// errServerClosed is wrapped with the close frame's code and reason when there is one.
var errServerClosed = errors.New("load: the server closed a connection")

// run is one measured exchange over a swarm.
type run interface {
	start(s *Swarm) error            // sends the first frames
	received(c *conn, f frame) error // one data frame
	drained(c *conn) error           // all that c had to read was read: send what is due
	done(now time.Time) bool         // asked after every batch of events
	idle() bool                      // no answer is owed: silence is not a stall
}

// timed is a run that sends by the clock. due sends what is due, and returns how long it is until more is.
type timed interface {
	due(s *Swarm) (time.Duration, error)
}

// drive feeds r with what the connections receive until it is done.
func (s *Swarm) drive(ctx context.Context, r run) error {
	if err := r.start(s); err != nil {
		return err
	}
	events := make([]unix.EpollEvent, 1024)
	lastHeard := time.Now()
	clock, _ := r.(timed)
	for {
		wait := longestWait
		if clock != nil {
			next, err := clock.due(s)
			if err != nil {
				return err
			}
			wait = min(wait, next)
		}
		n, err := s.wait(events, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("load: epoll: %w", err)
		}
		for i := range max(n, 0) {
			if err := s.handle(s.conns[events[i].Fd], events[i].Events, r); err != nil {
				return err
			}
		}
		now := time.Now()
		if n > 0 {
			lastHeard = now
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.done(now):
			return nil
		case !r.idle() && now.Sub(lastHeard) > stallAfter:
			return fmt.Errorf("load: the server has sent nothing for %v though answers are owed", stallAfter)
		}
	}
}

// longestWait is how often a run is asked whether it is done, if nothing happens.
const longestWait = 50 * time.Millisecond

// wait waits for events. It is exact to microseconds, while epoll_wait knows milliseconds only.
func (s *Swarm) wait(events []unix.EpollEvent, d time.Duration) (int, error) {
	if d%time.Millisecond != 0 {
		timeout := unix.NsecToTimespec(int64(d))
		if n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(s.epoll), Events: unix.POLLIN}}, &timeout, nil); n <= 0 || err != nil {
			return 0, err
		}
	}
	return unix.EpollWait(s.epoll, events, int(d/time.Millisecond))
}

func (s *Swarm) handle(c *conn, events uint32, r run) error {
	if len(c.unsent) > 0 && events&unix.EPOLLOUT != 0 {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return nil
	}
	for {
		n, err := readRetrying(c.fd, s.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return r.drained(c)
		case err != nil:
			return fmt.Errorf("load: read: %w", err)
		case n == 0:
			return errServerClosed
		}
		if err := s.took(c, s.buf[:n], r); err != nil {
			return err
		}
		// A short read emptied the socket, so the edge will fire again. A hang-up
		// must be read to its end: it fires only once.
		if n < len(s.buf) && events&unix.EPOLLRDHUP == 0 {
			return r.drained(c)
		}
	}
}

func (s *Swarm) took(c *conn, in []byte, r run) error {
	if c.secure == nil {
		return s.scan(c, in, r)
	}
	return c.decrypt(in, s.plain, func(b []byte) error { return s.scan(c, b, r) })
}

func (s *Swarm) scan(c *conn, in []byte, r run) error {
	for len(in) > 0 {
		f, rest, ok, err := c.scanner.next(in)
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		in = rest
		switch f.opcode {
		case opText, opBinary:
			err = r.received(c, f)
		case opPing:
			err = c.send(appendMasked(nil, opPong, f.payload))
		case opClose:
			err = fmt.Errorf("%w: %s", errServerClosed, closeReason(f.payload))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func closeReason(payload []byte) string {
	if len(payload) < 2 {
		return "no reason given"
	}
	return fmt.Sprintf("%d %s", int(payload[0])<<8|int(payload[1]), payload[2:])
}
