package limit

import (
	"sync"
	"time"

	"github.com/wskit/wskit/internal/engine"
)

// fallback answers for a store that fails: bounded state in this process, made
// when it is first needed.
type fallback struct {
	max   int
	now   func() time.Time
	once  sync.Once
	state *engine.Engine
}

// open makes the state.
func (f *fallback) open() *engine.Engine {
	f.once.Do(func() {
		f.state = engine.New(engine.Options{MaxKeys: f.max, Shards: 16, Grace: ClockTolerance.Microseconds(), Now: engine.Clock(f.now)})
	})
	return f.state
}

func (f *fallback) take(d *Decision, key []byte, plan *Plan, cost int64) {
	s := f.open()
	s.Take((*engine.Answer)(d), s.Hash(key), plan.compiled, cost)
}

func (f *fallback) peek(d *Decision, key []byte, plan *Plan, cost int64) {
	s := f.open()
	s.Peek((*engine.Answer)(d), s.Hash(key), plan.compiled, cost)
}

func (f *fallback) reset(key []byte, plan *Plan) {
	s := f.open()
	s.Reset(s.Hash(key), plan.compiled)
}
