package postgres

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/limit"
)

// call is what one caller asks.
type call struct {
	asks     []asks.Ask
	together bool // all are charged or none
	denied   bool // together
}

// round are calls that are decided at one instant, with the states of their keys.
type round struct {
	atOnce bool // all states are written or none: for calls about several keys
	calls  []*call
	now    int64
	states []*state   // of the keys, each once
	of     [][]*state // of the asks of each call
}

// state is that of a key.
type state struct {
	key    []byte
	text   string // as it was read
	is     asks.State
	ends   int64         // when the reset counts no more
	counts time.Duration // for how long what was decided does
}

// begin takes the calls of a round.
func (r *round) begin(calls []*call) {
	r.calls, r.states, r.of = calls, nil, make([][]*state, len(calls))
	byKey := make(map[string]*state, len(calls))
	for i, c := range calls {
		for _, a := range c.asks {
			s := byKey[a.Key]
			if s == nil {
				s = &state{key: keyBytes(a.Key)}
				byKey[a.Key] = s
				r.states = append(r.states, s)
			}
			r.of[i] = append(r.of[i], s)
		}
	}
}

func (r *round) keys() [][]byte {
	keys := make([][]byte, len(r.states))
	for i, s := range r.states {
		keys[i] = s.key
	}
	return keys
}

func (s *state) read(text string) {
	numbers, reset, _ := strings.Cut(text, "!")
	s.text, s.is.Numbers = text, asks.ReadNumbers(nil, numbers)
	if at := asks.ReadNumbers(nil, reset); len(at) == 2 {
		s.is.Reset, s.ends = at[0], at[1]
	}
}

// write is the text of a state at an instant.
func (s *state) write(now int64) string {
	text := asks.AppendNumbers(nil, s.is.Numbers)
	if s.is.Reset > 0 && s.ends+limit.ClockTolerance.Microseconds() > now {
		text = asks.AppendNumbers(append(text, '!'), []int64{s.is.Reset, s.ends})
	}
	return string(text)
}

// decide answers all calls, one after the other.
func (r *round) decide() {
	for i, c := range r.calls {
		if c.together {
			all := make([]*asks.Ask, len(c.asks))
			for j := range c.asks {
				all[j] = &c.asks[j]
			}
			c.denied = !asks.DecideTogether(all, func(j int) *asks.State { return &r.of[i][j].is }, r.now)
		}
		for j := range c.asks {
			a, s := &c.asks[j], r.of[i][j]
			if a.Operation == asks.Reset {
				s.ends = max(s.ends, a.Plan.Reset(a.Complete(&s.is), r.now))
			}
			if !c.together {
				a.Decide(&s.is, r.now)
			}
			var d limit.Decision
			a.Plan.Peek(&d, a.Complete(&s.is), r.now, 1)
			s.counts = max(d.ResetAfter, time.Duration(s.ends-r.now)*time.Microsecond, 0)
		}
	}
}

// changes are the states to be written, sorted by their keys, with how many microseconds they are kept.
func (r *round) changes() (keys [][]byte, before, after []string, lasts []int64) {
	states := slices.SortedFunc(slices.Values(r.states), func(a, b *state) int { return bytes.Compare(a.key, b.key) })
	for _, s := range states {
		if text := s.write(r.now); text != s.text {
			keys, before, after = append(keys, s.key), append(before, s.text), append(after, text)
			lasts = append(lasts, (s.counts + limit.ClockTolerance).Microseconds())
		}
	}
	return keys, before, after, lasts
}

// settle returns the calls that have to be decided again: those about keys that others had changed. With atOnce it is
// all.
func (r *round) settle(lost map[string]bool) (left []*call) {
	for i, c := range r.calls {
		if len(lost) > 0 && (r.atOnce || lost[string(r.of[i][0].key)]) {
			left = append(left, c)
			continue
		}
		for j := range c.asks {
			if !c.denied { // what is denied together says nothing of one key
				c.asks[j].Remember(&r.of[i][j].is)
			}
		}
	}
	return left
}
