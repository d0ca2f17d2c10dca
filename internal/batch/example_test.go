package batch_test

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/internal/batch"
)

func Example() {
	type question struct{ text, answer string }
	trips := batch.New(func(_ context.Context, items []*batch.Item[question]) {
		for _, item := range items { // all of them in one round trip
			item.Value.answer = item.Value.text + "!"
		}
	}, batch.Options{})

	item := trips.Item()
	item.Value = question{text: "hello"}
	if err := trips.Do(context.Background(), item); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(item.Value.answer)
	trips.Free(item)
	// Output: hello!
}
