// Package dedupe has one execution of a message for one idempotency key, whatever number of times the message is sent,
// to whatever process.
//
// Needed are a store, and a count of what shutting down waits for. Promised: of the executions of one key one at a time
// is claimed, and its claim is renewed until it ends or its process is killed; the others learn what became of it. What
// is kept of an execution is kept before it is sent, or, while the store fails, for as long as the claim holds off
// another one. No call of the store takes longer than its time. The methods of an Execution are for one goroutine at a
// time.
package dedupe

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/idempotency"
)

// Config is what executions need. It does not change.
type Config struct {
	Store   idempotency.Store
	Keep    time.Duration // how long an answer is kept
	Lease   time.Duration // how long a claim lasts without being renewed
	Timeout time.Duration // of one call of the store
	Busy    func(n int)   // adds n to what is waited for before the process ends
}

// Execution is one attempt to handle a message that has an idempotency key.
type Execution struct {
	*Config
	claim   idempotency.Claim
	claimed bool // it is the one that handles the message

	mu       sync.Mutex // see router/locks.go
	ended    bool
	timer    *time.Timer   // renews the claim
	renewing chan struct{} // closed when a renewal under way has ended
}

// Waiting for another execution begins with short pauses. Each ends with a call of the store.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// Claim is the claim on a message of a type with a key, by what subject is a digest of (see Digest). key and payload
// are read, and not kept.
func Claim(subject, typ string, key, payload []byte) idempotency.Claim {
	message := jsontext.Value(append([]byte(nil), payload...))
	if string(message) == "null" {
		message = nil
	}
	// White space, escapes and the order of members do not make another payload. (What does not
	// format is hashed as it is.)
	if message.Format() == nil {
		message = inOrder(message)
	}
	return idempotency.Claim{
		Subject: subject, Key: Digest("key", []byte(typ), key), Digest: Digest("payload", message), Execution: rand.Text(),
	}
}

// Digest stands for several texts; different ones never make the same.
func Digest(kind string, parts ...[]byte) string {
	h := sha256.New()
	_, _ = h.Write([]byte(kind))
	for _, p := range parts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		_, _ = h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// New makes an Execution of a message.
func New(c *Config, claim idempotency.Claim) *Execution { return &Execution{Config: c, claim: claim} }

// within is the time for one call of the store. It is not the message's: what becomes of a
// message is kept, whatever has become of its client.
func (e *Execution) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), e.Timeout)
}

func (e *Execution) ask() (idempotency.State, []byte, error) {
	ctx, cancel := e.within()
	defer cancel()
	return e.Store.Begin(ctx, e.claim, e.Lease)
}

// Begin asks the store for the message. If that is Claimed, the claim is renewed until End.
func (e *Execution) Begin() (state idempotency.State, answer []byte, err error) {
	state, answer, err = e.ask()
	if state == idempotency.Claimed && err == nil {
		e.claimed = true
		e.mu.Lock()
		defer e.mu.Unlock()
		e.timer = time.AfterFunc(e.Lease/3, e.renew)
	}
	return state, answer, err
}

// Await asks again and again until no other execution handles the message. ok is false if done was closed before. A
// claim is not renewed: it has to be released.
func (e *Execution) Await(done <-chan struct{}) (state idempotency.State, answer []byte, err error, ok bool) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		timer := time.NewTimer(pause/2 + mathrand.N(pause/2))
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return 0, nil, nil, false
		}
		if state, answer, err = e.ask(); err != nil || state != idempotency.Running {
			return state, answer, err, true
		}
	}
}

// Release lets another execution begin. Where that fails, the lease ends.
func (e *Execution) Release() {
	ctx, cancel := e.within()
	defer cancel()
	_ = e.Store.Release(ctx, e.claim)
}

func (e *Execution) renew() {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return
	}
	done := make(chan struct{})
	e.renewing = done
	e.mu.Unlock()

	ctx, cancel := e.within()
	err := e.Store.Renew(ctx, e.claim, e.Lease)
	cancel()

	e.mu.Lock()
	defer e.mu.Unlock()
	close(done)
	e.renewing = nil
	if !e.ended && !errors.Is(err, idempotency.ErrLost) {
		e.timer.Reset(e.Lease / 3)
	}
}

// End ends the renewing of the claim. It returns false for an execution that has not claimed the message, or has ended.
// After true, the claim is to be released, or an answer kept.
func (e *Execution) End() bool {
	if !e.claimed {
		return false
	}
	e.claimed = false
	e.mu.Lock()
	e.ended = true
	e.timer.Stop()
	renewing := e.renewing
	e.mu.Unlock()
	if renewing != nil { // it would claim again what has been released
		<-renewing
	}
	return true
}

// KeepAnswer keeps an answer. The error is one of Store.Finish.
func (e *Execution) KeepAnswer(answer []byte) error {
	ctx, cancel := e.within()
	defer cancel()
	return e.Store.Finish(ctx, e.claim, answer, e.Keep)
}

// Insist has another goroutine keep an answer that a store has failed to take, for as long as the lease holds off
// another execution. A smaller one, for which there always is room, takes its place where the store has none for it.
func (e *Execution) Insist(answer, smaller []byte) {
	e.Busy(1)
	go func() {
		defer e.Busy(-1)
		for until := time.Now().Add(e.Lease); time.Now().Before(until); {
			time.Sleep(longestPause)
			err := e.KeepAnswer(answer)
			if errors.Is(err, idempotency.ErrFull) {
				err = e.KeepAnswer(smaller)
			}
			if err == nil || errors.Is(err, idempotency.ErrLost) {
				return
			}
		}
	}()
}
