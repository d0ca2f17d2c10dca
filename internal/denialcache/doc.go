// Package denialcache caches the state for which a shared store denied a cost. While the
// state still denies, this process refuses further costs without a call of the store.
//
//	miss, denied := cache.Get(&d, key, plan, cost)
//	if denied {
//		return d // the answer that the store would give
//	}
//	d, state, err := … // the store decides
//	miss.Put(&d, state)
//
// # What is cached
//
// The cache stores the state of the key, not the answer. The state and the plan give the
// answer for any later instant, so a cached denial is exact in every field: RetryAfter and
// ResetAfter shrink, Remaining grows, an All names the binding policy, and the denial ends
// when the cost fits. This follows from the arithmetic; no policy is a special case:
//
//   - One state answers for every cost. A cost that it denies is answered from the
//     cache, even if another cost was denied before; one that would fit goes to the store.
//   - An All is answered if one of its parts denies, a [limit.Pacer] if its queue is
//     too long.
//   - A changed policy of the same shape uses the same state with its own numbers: with a
//     raised limit the next call goes to the store.
//   - An impossible cost is denied by any state.
//
// # Why that is exact
//
// Other clients of the store can only add to what was used. Only time reduces it, and the
// arithmetic accounts for that. So a cost that is denied by the cached state is also denied
// by the current state in the store. For the end of a denial, time is measured from when the
// miss was sent, on the monotonic clock. The store read its own clock later than that, so
// no denial lasts too long. For the fields of the answer, time is measured from when the
// answer came, which is at most one round trip earlier than the store's clock: waiting
// RetryAfter succeeds. [limit.Decision.At] is that instant by the clock of the store.
//
// The cached state includes what this process takes. What other processes take until then is
// not known: until the next call of the store the true wait may be longer than RetryAfter,
// and Remaining smaller.
//
// Four events give back what was used: a refund, a reset, a limit that is lowered and raised
// again, and a store that loses its state. A refund or a reset by this process removes the
// key ([Cache.Invalidate]). The other events take effect after [Options.MaxAge] at the
// latest; until then the answer is stricter than that of the store.
package denialcache
