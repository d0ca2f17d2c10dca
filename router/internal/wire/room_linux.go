package wire

import (
	"syscall"
	"unsafe"
)

// canAsk says that a socket can report whether it takes more without waiting.
const canAsk = true

const pollOut = 4 // POLLOUT of poll.h

// writable reports whether a write would not wait: there is room, or it fails at once.
func writable(fd uintptr) bool {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: pollOut}
	var now syscall.Timespec
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0 && n > 0
		}
	}
}

// sendBuffer is the size of the buffer that the kernel sends from.
func sendBuffer(fd uintptr) int {
	n, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	if err != nil {
		return 0
	}
	return n
}
