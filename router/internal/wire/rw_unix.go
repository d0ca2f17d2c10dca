//go:build unix && (race || !linux)

package wire

import "syscall"

// Package syscall informs the race detector that what was written happens before it is read.

func read(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }

func write(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }
