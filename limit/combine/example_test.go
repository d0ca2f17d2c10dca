package combine_test

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/limit/combine"
)

func Example() {
	type question struct{ text, answer string }
	trips := combine.New(func(_ context.Context, batch []*combine.Item[question]) {
		for _, item := range batch { // all of them in one round trip
			item.Value.answer = item.Value.text + "!"
		}
	}, combine.Options{})

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
