package router

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1 // CLOCK_MONOTONIC of time.h

// nap is a short sleep on a timer of the kernel's (timerfd_create(2)), for which its
// goroutine waits as for a connection. While a timer of the runtime is due within
// milliseconds, every wait for the network has a timeout, for which the kernel sets
// the clock's next interrupt and then resets it. On a virtual machine that is a
// fifth of what a message costs when the server has nothing else to do.
//
// The zero value is ready. It is for one goroutine at a time, and closes its
// descriptor when it is collected.
type nap struct {
	timer *os.File
	raw   syscall.RawConn
}

// sleep sleeps for d, at least a nanosecond. It reports false, at once, when it
// cannot: a process may have no descriptor left.
func (n *nap) sleep(d time.Duration) bool {
	if n.timer == nil && !n.open() {
		return false
	}
	once := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(d))} // struct itimerspec: no interval
	failed := syscall.Errno(0)
	err := n.raw.Control(func(fd uintptr) {
		_, _, failed = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&once)), 0, 0, 0)
	})
	if err != nil || failed != 0 {
		return false
	}
	var expirations [8]byte
	_, err = n.timer.Read(expirations[:])
	return err == nil
}

func (n *nap) open() bool {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return false
	}
	n.timer = os.NewFile(fd, "timerfd")
	n.raw, _ = n.timer.SyscallConn() // fails on a nil File alone
	return true
}
