package overload

import (
	"cmp"
	"math"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/router/internal/timerfd"
)

const (
	// probeTick is the time between two measurements of the wait for a CPU.
	probeTick = 10 * time.Millisecond
	// Settle is for how long nothing must be refused until an overload counts as over.
	Settle = 10 * time.Second
)

// Meter measures how this process does, with two goroutines, while there are connections. The configuration is set
// before [Meter.Begin]. Its methods may be called from any goroutine.
type Meter struct {
	Config

	running atomic.Bool
	last    atomic.Int64 // the wait at the last look
}

// Config is what a Meter needs.
type Config struct {
	Now         func() time.Duration
	Sockets     *atomic.Bool // there have been connections that the kernel keeps
	Connections func() int64 // how many there are
	Busy        func() bool  // whether something else that handlers need is busy
	MaxMemory   int64        // in bytes; 0: GOMEMLIMIT; negative: memory is not measured
	Look        func(Seen)   // gets what was measured, every [Every]
	Stop        <-chan struct{}
}

// LastWait is the shortest wait for a CPU before the last look.
func (m *Meter) LastWait() time.Duration { return time.Duration(m.last.Load()) }

// Begin starts measuring, unless that has begun. It ends by itself when there have been no connections for a while.
func (m *Meter) Begin() {
	if !m.running.Load() && m.running.CompareAndSwap(false, true) {
		go m.run()
	}
}

// quietLooks is how many looks without a connection there are until measuring ends. By then an overload
// is over, too.
const quietLooks = int(2 * Settle / Every)

func (m *Meter) run() {
	p := probe{m: m, stop: make(chan struct{})}
	p.wait.Store(-1)
	go p.run()
	tick := time.NewTicker(Every)
	defer tick.Stop()
	memory := newMemoryUse(m.MaxMemory)
	for quiet := 0; quiet < quietLooks; quiet++ {
		select {
		case <-m.Stop:
			close(p.stop)
			return // and nothing begins again
		case <-tick.C:
		}
		if m.Connections() > 0 {
			quiet = 0
		}
		seen := Seen{At: m.Now(), Memory: memory.share(), Busy: m.Busy()}
		seen.Wait = p.take(seen.At)
		m.last.Store(int64(seen.Wait))
		m.Look(seen)
	}
	close(p.stop)
	m.running.Store(false)
	if m.Connections() > 0 { // which may have come after the last look
		m.Begin()
	}
}

// probe measures how long work waits for a CPU. It waits for a timer of the kernel, as the reader of
// a connection waits for its socket: when that is due, the probe is in the same queues, that of
// the kernel's events and that of the scheduler. So it is as late as a message that comes at
// that time. A timer of the runtime would not show that, because its goroutine runs before
// others: that is why the looks have one.
type probe struct {
	m     *Meter
	stop  chan struct{}
	timer timerfd.Timer
	due   atomic.Int64 // when the probe is to return
	wait  atomic.Int64 // the shortest since the last look; negative: none
}

func (p *probe) run() {
	for {
		due := p.m.Now() + probeTick
		p.due.Store(int64(due))
		if !p.m.Sockets.Load() || !p.timer.Sleep(probeTick) { // without sockets time may be that of a test
			select {
			case <-p.stop:
				return
			case <-time.After(probeTick):
				runtime.Gosched() // all others come first
			}
		}
		late := int64(p.m.Now() - due)
		for old := p.wait.Load(); old < 0 || late < old; old = p.wait.Load() {
			if p.wait.CompareAndSwap(old, late) {
				break
			}
		}
		select {
		case <-p.stop:
			return
		default:
		}
	}
}

// take returns the shortest wait since it was called before. If the probe has not returned, that is how
// late it is by now.
func (p *probe) take(now time.Duration) time.Duration {
	if wait := p.wait.Swap(-1); wait >= 0 {
		return time.Duration(wait)
	}
	return max(0, now-time.Duration(p.due.Load()))
}

// memoryUse reads how much of the memory is in use.
type memoryUse struct {
	max     int64 // 0: GOMEMLIMIT; negative: is not looked at
	samples []metrics.Sample
}

// The samples of memoryUse: the limit, what counts as used, and the parts of it that are not: what
// is free, and the heap, in place of which counts what was alive at the last collection.
var memorySamples = []string{
	"/gc/gomemlimit:bytes", "/memory/classes/total:bytes", "/gc/heap/live:bytes",
	"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes",
}

func newMemoryUse(most int64) *memoryUse {
	m := &memoryUse{max: most, samples: make([]metrics.Sample, len(memorySamples))}
	for i, name := range memorySamples {
		m.samples[i].Name = name
	}
	return m
}

// share is the part of the memory that is in use. What the collector can free does not count: the memory
// of a healthy process may be full of that.
func (m *memoryUse) share() float64 {
	if m.max < 0 {
		return 0
	}
	metrics.Read(m.samples)
	n := func(i int) int64 { return int64(m.samples[i].Value.Uint64()) }
	most := cmp.Or(m.max, n(0))
	if most == math.MaxInt64 {
		return 0
	}
	used := n(1) + n(2) - n(3) - n(4) - n(5) - n(6)
	return float64(used) / float64(most)
}
