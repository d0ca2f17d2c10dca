package batch_test

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/internal/batch"
)

func Example() {
	type question struct{ text, answer string }
	calls := batch.New(func(_ context.Context, items []*batch.Item[question]) {
		for _, item := range items { // all of them in one round trip
			item.Value.answer = item.Value.text + "!"
		}
	}, batch.Options{})

	item := calls.Item()
	item.Value = question{text: "hello"}
	if err := calls.Do(context.Background(), item); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(item.Value.answer)
	calls.Free(item)
	// Output: hello!
}
