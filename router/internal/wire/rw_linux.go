//go:build !race

package wire

import (
	"syscall"
	"unsafe"
)

// read and write are the system calls, of a descriptor that never waits and bytes of which there is at least one.
// They leave out what package syscall does for calls that may wait: it informs the scheduler before and after, which
// costs a tenth of a message. These return as soon as the kernel has copied.

func read(fd uintptr, b []byte) (int, error) { return raw(syscall.SYS_READ, fd, b) }

func write(fd uintptr, b []byte) (int, error) { return raw(syscall.SYS_WRITE, fd, b) }

func raw(call, fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
