//go:build !unix

package wire

import "syscall"

// initRaw does nothing: without readiness callbacks of the Unix kind the
// connection is read and written through its net.Conn.
func (s *Stream) initRaw(syscall.Conn) {}

func (s *Stream) fillRaw() error { panic("wire: not reached") }

func (o *Outbox) writeRaw([]byte) (int, error) { panic("wire: not reached") }
