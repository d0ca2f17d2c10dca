// Package asks answers what is asked about the state of keys that a server keeps, for the stores that read that state
// and do the arithmetic of package limit themselves.
//
// A store collects asks, reads the states of their keys and the instant from its server, and has each ask decided, or
// all of them together. What changed is in the states then.
package asks

import (
	"strconv"
	"strings"

	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// Operation is what is asked. The numbers are those of the script for Redis.
type Operation int64

// The operations of a [limit.ExtendedStore].
const (
	Take Operation = iota + 1
	Peek
	Reset
	Refund
)

// An Ask is a question about one key, and its answer.
type Ask struct {
	Operation Operation
	Key       string
	Plan      *limit.Plan
	Cost      int64
	Taken     limit.Decision   // of a refund
	Question  denialcache.Miss // of a take
	Answer    limit.Decision
}

// KeyOf is the key of a state: one of another shape has another key. No shape has a '~' in it, so different keys stay
// different.
func KeyOf(key []byte, plan *limit.Plan) string { return string(key) + "~" + plan.Shape() }

// Of makes the asks of a [limit.ManyTaker], and checks all of them.
func Of(several []limit.Ask) ([]Ask, error) {
	all := make([]Ask, len(several))
	for i := range several {
		a := &several[i]
		plan, err := limit.Prepare(a.Policy, a.Cost)
		if err != nil {
			return nil, err
		}
		all[i] = Ask{Operation: Take, Key: KeyOf(a.Key, plan), Plan: plan, Cost: a.Cost}
	}
	return all, nil
}

// State is what is kept for a key: the numbers of a [limit.Plan], and the instant of the last reset, 0 for none.
type State struct {
	Numbers []int64
	Reset   int64
}

// Decide answers an ask with the state of its key.
func (a *Ask) Decide(s *State, now int64) {
	switch a.Operation {
	case Take:
		s.Numbers, _ = a.Plan.Take(&a.Answer, a.Complete(s), now, a.Cost)
	case Peek:
		a.peek(s, now)
	case Refund:
		taken := a.Taken
		s.Numbers, _, _ = a.Plan.Refund(a.Complete(s), now, s.Reset, &taken)
	case Reset:
		if a.Plan.Reset(a.Complete(s), now) > 0 {
			s.Reset = now
		}
		s.Numbers = s.Numbers[:0]
	}
}

// Remember has the answer of a take, with the state after it, deny what is asked later. Call it when the state is kept.
func (a *Ask) Remember(s *State) { a.Question.Put(&a.Answer, s.Numbers) }

// Complete is the state as the plan of the ask reads it.
func (a *Ask) Complete(s *State) []int64 { return a.Plan.Compiled().Complete(s.Numbers) }

func (a *Ask) peek(s *State, now int64) { a.Plan.Peek(&a.Answer, a.Complete(s), now, a.Cost) }

// DecideTogether charges all asks in order, or none: when one is denied, it takes back what was charged before. of
// returns the state of an ask. A denial must not be remembered: it says nothing of the key alone.
func DecideTogether(all []*Ask, of func(int) *State, now int64) (allowed bool) {
	before := make([][]int64, len(all))
	denied := -1
	for i, a := range all {
		s := of(i)
		before[i] = append([]int64(nil), s.Numbers...)
		s.Numbers, _ = a.Plan.Take(&a.Answer, a.Complete(s), now, a.Cost)
		if !a.Answer.Allowed {
			denied = i
			break
		}
	}
	if denied < 0 {
		return true
	}
	for i := denied - 1; i >= 0; i-- {
		of(i).Numbers = before[i]
	}
	for i, a := range all {
		if i != denied {
			a.peek(of(i), now)
		}
	}
	return false
}

// Bind gives the answers of asks that were decided together to their asker, and returns which one decided.
func Bind(several []limit.Ask, all []Ask) (bound int) {
	denied := false
	for i := range all {
		d := &several[i].Decision
		*d = all[i].Answer
		denied = denied || !d.Allowed
		if engine.Binds((*engine.Answer)(d), (*engine.Answer)(&several[bound].Decision)) {
			bound = i
		}
	}
	for i := range several {
		if denied {
			several[i].Decision.Allowed, several[i].Decision.Wait = false, 0
		}
	}
	return bound
}

// MaxInstant is the first instant that the arithmetic cannot use.
const MaxInstant = int64(1) << 52

// ReadNumbers reads numbers as decimal text, one space between them. Text that is something else is no numbers.
func ReadNumbers(dst []int64, text string) []int64 {
	for text != "" {
		var word string
		word, text, _ = strings.Cut(text, " ")
		n, err := strconv.ParseUint(word, 10, 53)
		if err != nil {
			return dst[:0]
		}
		dst = append(dst, int64(n))
	}
	return dst
}

// AppendNumbers writes what [ReadNumbers] reads, without the zeros at the end.
func AppendNumbers(dst []byte, numbers []int64) []byte {
	last := len(numbers)
	for last > 0 && numbers[last-1] == 0 {
		last--
	}
	for i, n := range numbers[:last] {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return dst
}
