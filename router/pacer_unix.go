//go:build unix

package router

import (
	"os"
	"syscall"
	"time"
)

// look is a look at the network by Go's scheduler. The zero value is ready. It is for one goroutine at a time, and
// closes its descriptors when it is collected.
type look struct {
	in, out syscall.RawConn // of a pipe; nil: there is none
	write   func(fd uintptr) bool
	read    func(fd uintptr) bool
	asked   bool
	failed  error
}

// await returns when the scheduler has seen all sockets that are ready now. It makes the end of a pipe ready, behind
// them, and waits until the scheduler has seen that.
func (l *look) await() {
	if l.in == nil && !l.open() {
		time.Sleep(pacerSlice) // the process may have no descriptor left
		return
	}
	l.asked = false
	if l.in.Read(l.read) != nil || l.failed != nil { // the network cannot be waited for: the kernel may be short of memory
		*l = look{}
		time.Sleep(pacerSlice)
	}
}

func (l *look) open() bool {
	r, w, err := os.Pipe()
	if err != nil {
		return false
	}
	in, err := r.SyscallConn()
	if err != nil {
		return false
	}
	out, err := w.SyscallConn()
	if err != nil {
		return false
	}
	var b [1]byte
	l.in, l.out = in, out
	l.write = func(fd uintptr) bool {
		_, l.failed = syscall.Write(int(fd), b[:])
		return true
	}
	l.read = func(fd uintptr) bool {
		if !l.asked {
			l.asked = true
			return l.out.Write(l.write) != nil || l.failed != nil
		}
		_, _ = syscall.Read(int(fd), b[:])
		return true
	}
	return true
}
