//go:build unix

package wire

import (
	"io"
	"net"
	"syscall"
)

// initRaw arranges to read through the descriptor: the buffer can then be
// borrowed after the socket has become readable, instead of being held while
// waiting for it. The callbacks are made once, since a closure for every call
// would be an allocation for every frame.
func (s *Stream) initRaw(sc syscall.Conn) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.onRead = s.readReady
	s.Out.onWrite = s.Out.writeReady
}

func (s *Stream) fillRaw() error {
	s.readErr = nil
	if err := s.raw.Read(s.onRead); err != nil {
		s.giveBack()
		return err
	}
	if s.readErr != nil {
		s.giveBack()
		return s.readErr
	}
	if s.asking != asks {
		s.touch()
	}
	return nil
}

// readReady is called with a descriptor that may be readable; false means wait.
func (s *Stream) readReady(fd uintptr) bool {
	if s.asking == asks {
		return true
	}
	into := s.room()
	for {
		n, err := read(fd, into)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			s.giveBack()
			if s.asking == asksFirst {
				s.asking = asks
			}
			return false
		case err != nil:
			s.readErr = &net.OpError{Op: "read", Net: "tcp", Err: err}
			return true
		case n == 0:
			s.readErr = io.EOF
			return true
		default:
			s.took(n)
			return true
		}
	}
}

// writeRaw is tryWrite for a descriptor.
func (o *Outbox) writeRaw(b []byte) (int, error) {
	o.writing, o.written, o.writeErr = b, 0, nil
	err := o.stream.raw.Write(o.onWrite)
	o.writing = nil
	if err == nil {
		err = o.writeErr
	}
	return o.written, err
}

func (o *Outbox) writeReady(fd uintptr) bool {
	for o.written < len(o.writing) {
		n, err := write(fd, o.writing[o.written:])
		if n > 0 {
			o.written += n
		}
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			o.writeErr = errAgain
			return true
		case err != nil:
			o.writeErr = &net.OpError{Op: "write", Net: "tcp", Err: err}
			return true
		}
	}
	return true
}
