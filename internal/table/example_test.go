package table_test

import (
	"fmt"

	"github.com/wskit/wskit/internal/table"
)

// Counts that expire, in a table with a capacity of two keys.
func Example() {
	t := table.New(table.Options{Width: 1, Max: 2})
	const minute = 60_000_000
	count := func(key string, now int64) string {
		h := t.Hash(key)
		r := t.Lock(h)
		defer r.Unlock()
		state := r.State()
		if state == nil {
			if !t.Insert(r, h, []int64{1}, now+minute, now) {
				return "full"
			}
			return "1"
		}
		state[0]++
		n := fmt.Sprint(state[0])
		r.Keep() // the expiry stays as it was
		return n
	}
	fmt.Println(count("ann", 0), count("ann", 0), count("bob", 0), count("cat", 0))
	fmt.Println(count("cat", 2*minute)) // an expired entry is evicted
	// Output:
	// 1 2 1 full
	// 1
}
