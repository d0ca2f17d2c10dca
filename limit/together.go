package limit

import "fmt"

// CanTakeAll reports whether [TakeAll] can charge these limiters together, for
// whoever wires them up: nil, or an error that says what to change. They need one
// store, and one that has the operation. A store may still refuse keys that it
// cannot charge in one step, with errors.ErrUnsupported.
func CanTakeAll(limiters ...*Limiter) error {
	if len(limiters) > MaxAsks {
		return fmt.Errorf("limit: %d limiters; at most %d are charged together", len(limiters), MaxAsks)
	}
	shadows := 0
	for i, l := range limiters {
		switch {
		case l == nil:
			return fmt.Errorf("limit: limiter %d is nil; make one with limit.New(store, policy)", i)
		case !sameStore(l, limiters[0]):
			return fmt.Errorf("limit: limiters %s and %s have different stores; make both with one, or ask them one after the other", limiters[0].name, l.name)
		case l.shadow:
			shadows++
		}
	}
	if len(limiters) == 0 {
		return nil
	}
	store := limiters[0].store
	if _, ok := store.(AllTaker); !ok && shadows < len(limiters) {
		return fmt.Errorf("limit: the store of limiter %s cannot charge several limiters in one step (it has no TakeAll); put the policies of one subject into limit.All, or ask the limiters one after the other", limiters[0].name)
	}
	if _, ok := store.(ManyTaker); !ok && shadows == len(limiters) {
		return fmt.Errorf("limit: the store of limiter %s cannot ask several limiters at once (it has no TakeMany); ask them one after the other", limiters[0].name)
	}
	return nil
}
