package postgres

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/limit"
)

// round are asks that are decided at one instant, with the states of their keys.
type round struct {
	asks     []*asks.Ask
	atOnce   bool // all states are written or none
	together bool // all asks are charged or none
	denied   bool // together
	now      int64
	states   []*state // of the keys, each once
	of       []*state // of each ask
}

// state is that of a key.
type state struct {
	key    []byte
	text   string // as it was read
	is     asks.State
	ends   int64         // when the reset counts no more
	counts time.Duration // for how long what was decided does
}

// begin takes the asks of a round.
func (r *round) begin(all []*asks.Ask) {
	r.asks, r.states, r.of = all, nil, nil
	byKey := make(map[string]*state, len(all))
	for _, a := range all {
		s := byKey[a.Key]
		if s == nil {
			s = &state{key: keyBytes(a.Key)}
			byKey[a.Key] = s
			r.states = append(r.states, s)
		}
		r.of = append(r.of, s)
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

// decide answers all asks.
func (r *round) decide() {
	if r.together {
		r.denied = !asks.DecideTogether(r.asks, func(i int) *asks.State { return &r.of[i].is }, r.now)
	}
	for i, a := range r.asks {
		s := r.of[i]
		switch {
		case a.Operation == asks.Reset:
			s.ends = max(s.ends, a.Plan.Reset(a.Complete(&s.is), r.now))
			a.Decide(&s.is, r.now)
		case !r.together:
			a.Decide(&s.is, r.now)
		}
		var d limit.Decision
		a.Plan.Peek(&d, a.Complete(&s.is), r.now, 1)
		s.counts = max(d.ResetAfter, time.Duration(s.ends-r.now)*time.Microsecond, 0)
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

// settle returns the asks that have to be decided again: those of keys that others had changed. With atOnce it is all.
func (r *round) settle(lost [][]byte) (left []*asks.Ask) {
	for i, a := range r.asks {
		s := r.of[i]
		switch {
		case len(lost) > 0 && (r.atOnce || slices.ContainsFunc(lost, func(key []byte) bool { return bytes.Equal(key, s.key) })):
			left = append(left, a)
		case !r.denied:
			a.Remember(&s.is)
		}
	}
	return left
}
