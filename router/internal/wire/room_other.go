//go:build !linux

package wire

// canAsk says that a socket can report whether it takes more without waiting.
const canAsk = false

func writable(uintptr) bool  { return false }
func sendBuffer(uintptr) int { return 0 }
