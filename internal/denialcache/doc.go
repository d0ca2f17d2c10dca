// Package denialcache remembers what made a shared store deny, so that a flood of
// refused costs is refused by this process and costs the store nothing.
//
//	miss, denied := cache.Get(&d, key, plan, cost)
//	if denied {
//		return d // what the store would say
//	}
//	d, state, err := … // the store decides
//	miss.Put(&d, state)
//
// # What is remembered
//
// Not the answer but the state it was made from: what had been used of the key
// when the store denied. The state and the plan give the answer of any later
// instant, so a remembered denial is exact in every field: RetryAfter and
// ResetAfter shrink, Remaining grows, of an All the policy that binds is named,
// and the end comes when the cost fits. It is the arithmetic that knows; nothing
// is special about a policy:
//
//   - One state answers for every cost. A cost that is denied by it is answered,
//     whichever cost it was learned from; one that would fit asks the store.
//   - An All is answered when one of its parts denies, a [limit.Pacer] when the
//     line is too long.
//   - A changed policy of the same shape reads the same state by its own numbers:
//     a raised limit asks the store again at once.
//   - An impossible cost is denied by any state.
//
// # Why that is exact
//
// Whatever others take of the key is added to what was used, and otherwise only
// time takes it away, which the arithmetic accounts for. So what is denied by the
// remembered state is denied by the one that the store has now. The instant is
// counted from when the miss was sent, on the monotonic clock: the store read
// its own clock later than that, so no denial is remembered for too long. The
// fields are those of an instant that was counted from when the answer came, and
// so at most one round trip earlier than the store's clock: waiting RetryAfter
// succeeds. [limit.Decision.At] is that instant by the clock of the store.
//
// What this process takes of the key itself is learned with it. What others take
// meanwhile is not known: the true wait may be longer than what is remembered,
// and Remaining smaller, until the store is asked again.
//
// Four things give back what was used, and end the reasoning: a refund, a reset,
// a limit lowered and raised again, and a store that lost its state. A refund or a
// reset through this process forgets the key ([Cache.Invalidate]). Those of others
// are noticed after [Options.MaxAge] at the latest; until then the answer is the
// stricter one.
package denialcache
