//go:build unix

package fairness

import (
	"os"
	"syscall"
	"time"
)

// netpoll has Go's scheduler poll the network. The zero value is ready. It is for one goroutine at a time, and
// closes its descriptors when it is collected.
type netpoll struct {
	in, out syscall.RawConn // of a pipe; nil: there is none
	write   func(fd uintptr) bool
	read    func(fd uintptr) bool
	asked   bool
	failed  error
}

// await returns when the scheduler has seen all sockets that are ready now. It makes the end of a pipe ready after
// them, and waits until the scheduler has seen that.
func (n *netpoll) await() {
	if n.in == nil && !n.open() {
		time.Sleep(slice) // the process may have no descriptor left
		return
	}
	n.asked = false
	if n.in.Read(n.read) != nil || n.failed != nil { // the network cannot be waited for: the kernel may be short of memory
		*n = netpoll{}
		time.Sleep(slice)
	}
}

func (n *netpoll) open() bool {
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
	n.in, n.out = in, out
	n.write = func(fd uintptr) bool {
		_, n.failed = syscall.Write(int(fd), b[:])
		return true
	}
	n.read = func(fd uintptr) bool {
		if !n.asked {
			n.asked = true
			return n.out.Write(n.write) != nil || n.failed != nil
		}
		_, _ = syscall.Read(int(fd), b[:])
		return true
	}
	return true
}
