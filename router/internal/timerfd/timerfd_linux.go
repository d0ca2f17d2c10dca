// Package timerfd sleeps without a timer of Go's runtime.
//
// While a timer of the runtime is due within milliseconds, every wait for the network has a timeout, for which the
// kernel sets the clock's next interrupt and then resets it. On a virtual machine that is a fifth of what a message
// costs when the server has nothing else to do. Needed is Linux: elsewhere nothing sleeps, and the caller takes a file.
// Promised: a sleep is never shorter than asked for, and its goroutine waits as for a connection.
package timerfd

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1 // CLOCK_MONOTONIC of time.h

// Timer is a timer of the kernel's (timerfd_create(2)). The zero value is ready. It is for one goroutine at a time, and
// closes its descriptor when it is collected.
type Timer struct {
	file *os.File
	raw  syscall.RawConn
}

// Sleep sleeps for d, at least a nanosecond. It reports false, at once, when it cannot: a process may have no
// descriptor left.
func (t *Timer) Sleep(d time.Duration) bool {
	if t.file == nil && !t.open() {
		return false
	}
	once := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(d))} // struct itimerspec: no interval
	failed := syscall.Errno(0)
	err := t.raw.Control(func(fd uintptr) {
		_, _, failed = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&once)), 0, 0, 0)
	})
	if err != nil || failed != 0 {
		return false
	}
	var expirations [8]byte
	_, err = t.file.Read(expirations[:])
	return err == nil
}

func (t *Timer) open() bool {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return false
	}
	t.file = os.NewFile(fd, "timerfd")
	t.raw, _ = t.file.SyscallConn() // fails on a nil File alone
	return true
}
