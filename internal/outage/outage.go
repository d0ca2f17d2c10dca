// Package outage reports, in the log and to a hook, that a component fails and that it
// works again: once each, however many calls fail.
package outage

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
)

// A Reporter reports on one component. Its methods may be called by any number of
// goroutines and under locks: they wait for nothing. The log and the hook are called by a
// goroutine of the Reporter's, one call at a time and in order, which ends when there is
// nothing left to report. While one of them does not return, the latest state waits, and
// what came and went before it is not reported.
type Reporter struct {
	Component, Name string
	// Failing and Working are the log lines, with Attrs behind them.
	Failing, Working string
	Attrs            []any
	Log              *slog.Logger // nil means slog.Default()
	Hook             func(errors.Outage)
	// Settle is for how long nothing may have failed before the component works again:
	// of one that fails now and then, not every failure is an outage.
	Settle time.Duration

	failing atomic.Bool
	mu      sync.Mutex
	last    time.Time // when it failed
	current change
	waiting []change
	running bool
}

// A change is the beginning of an outage or its end.
type change struct {
	errors.Outage
	attrs []any // of the beginning
}

// Failed says that the component fails, and why, with attributes for the log. Of several
// failures in a row the first is reported.
func (r *Reporter) Failed(err error, attrs ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.failing.Load() {
		return
	}
	r.failing.Store(true)
	r.current = change{errors.Outage{Component: r.Component, Name: r.Name, Err: err, Since: r.last}, attrs}
	r.report(r.current)
}

// Works says that the component works. It costs one load unless it has failed before.
func (r *Reporter) Works() {
	if !r.failing.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failing.Load() || time.Since(r.last) < r.Settle {
		return
	}
	r.failing.Store(false)
	r.current.Over, r.current.attrs = true, nil
	r.report(r.current)
}

// report puts a change behind those that wait. A beginning and an end that both still wait
// are left out together when another change comes.
func (r *Reporter) report(c change) {
	if n := len(r.waiting); n >= 2 {
		r.waiting = r.waiting[:n-2]
	}
	r.waiting = append(r.waiting, c)
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *Reporter) run() {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		c := r.waiting[0]
		r.waiting = append(r.waiting[:0], r.waiting[1:]...)
		r.mu.Unlock()
		r.say(c)
	}
}

// say logs a change and calls the hook, whose panic is logged.
func (r *Reporter) say(c change) {
	log := r.Log
	if log == nil {
		log = slog.Default()
	}
	defer func() {
		if p := recover(); p != nil {
			log.Error("wskit: OnOutage panicked", "component", r.Component, "name", r.Name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if c.Over {
		log.Info(r.Working, append([]any{"after", time.Since(c.Since).Round(time.Millisecond)}, r.Attrs...)...)
	} else {
		log.Warn(r.Failing, slices.Concat([]any{"error", strings.TrimSpace(c.Err.Error())}, r.Attrs, c.attrs)...)
	}
	if r.Hook != nil {
		r.Hook(c.Outage)
	}
}
