// Package transcript keeps what a process says while others look, for the message of
// a failing test.
package transcript

import (
	"bytes"
	"sync"
)

// Transcript is a buffer that any number of goroutines may write and read. The zero
// value is empty.
type Transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p. It never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

// String returns all that was written.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
