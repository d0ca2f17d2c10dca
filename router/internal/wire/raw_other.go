//go:build !unix

package wire

import (
	"errors"
	"syscall"
)

var errAgain = errors.New("wire: the socket's buffer is full")

// initRaw does nothing: without readiness callbacks of the Unix kind the
// connection is read and written through its net.Conn.
func (s *Stream) initRaw(syscall.Conn) {}

func (s *Stream) fillRaw() error { panic("wire: not reached") }

func (o *Outbox) tryWrite([]byte) (int, error) { return 0, errAgain }
