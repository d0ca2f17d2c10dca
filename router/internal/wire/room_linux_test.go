package wire

import (
	"syscall"
	"testing"
)

// The kernel's buffer gets its size when as much has been written as it is to hold, and before that when it is full.
func TestBufferIsBounded(t *testing.T) { overSockets(t, bufferIsBounded) }

func bufferIsBounded(t *testing.T, connect pair) {
	const small, large = 4 << 10, 128 << 10
	s, _, _ := connect(t)
	s.Buffer(small)
	chosen := kernelBuffer(t, s)
	send(s, small-1)
	if n := kernelBuffer(t, s); n != chosen {
		t.Errorf("the buffer has %d bytes before as much is written, want %d as at first", n, chosen)
	}
	send(s, 1)
	if n := kernelBuffer(t, s); n != 2*small { // Linux doubles it
		t.Errorf("the buffer has %d bytes, want %d", n, 2*small)
	}

	s, _, _ = connect(t)
	s.Buffer(large)
	chosen = kernelBuffer(t, s)
	for n := 0; n < large-1<<10; n += 1 << 10 { // nothing reads it
		send(s, 1<<10)
	}
	switch n := kernelBuffer(t, s); {
	case n == chosen && s.Out.Queued() == 0: // it was large enough
	case n != 2*large:
		t.Errorf("the buffer that was full has %d bytes, want %d", n, 2*large)
	}
}

func send(s *Stream, n int) {
	_ = s.Out.Append(make([]byte, n))
	s.Out.Flush()
}

// kernelBuffer is the size of the buffer that the kernel sends from.
func kernelBuffer(t *testing.T, s *Stream) (n int) {
	t.Helper()
	raw, err := s.socket().(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n = sendBuffer(fd) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
