package httpclose

import (
	"sync"
	"time"
)

// acceptsPerSecond bounds the refusals by accepting the handshake. Each uses a socket for seconds.
const acceptsPerSecond = 100

// Accepts limits the refusals that accept the handshake and close the connection. The zero value is
// ready to use, by any goroutine.
type Accepts struct {
	mu   sync.Mutex
	full time.Time // when as many as acceptsPerSecond can be made at once
}

// Take reports whether one more can be made.
func (a *Accepts) Take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	full := a.full
	if full.Before(now) {
		full = now
	}
	if full = full.Add(time.Second / acceptsPerSecond); full.Sub(now) > time.Second {
		return false
	}
	a.full = full
	return true
}
