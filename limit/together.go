package limit

import "fmt"

// CanTakeAll returns nil if [TakeAll] can charge these limiters together, or else an error
// that says what to change: call it once, when the program starts. The limiters need one
// store, and one that has the operation. A store may still refuse keys that it cannot
// charge in one step, with errors.ErrUnsupported.
func CanTakeAll(limiters ...*Limiter) error {
	if len(limiters) > maxAsks {
		return fmt.Errorf("limit: %d limiters; at most %d are charged together", len(limiters), maxAsks)
	}
	for i, l := range limiters {
		switch {
		case l == nil:
			return fmt.Errorf("limit: limiter %d is nil; make one with limit.New(store, policy)", i)
		case !sameStore(l, limiters[0]):
			return fmt.Errorf("limit: limiters %s and %s have different stores; make both with one, or call them one after the other", limiters[0].name, l.name)
		}
	}
	if len(limiters) == 0 {
		return nil
	}
	if limiters[0].many == nil {
		return fmt.Errorf("limit: the store of limiter %s cannot charge several limiters in one step (it has no TakeAll); put the policies of one subject into limit.All, or call the limiters one after the other", limiters[0].name)
	}
	return nil
}
