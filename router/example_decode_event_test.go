package router_test

import (
	"fmt"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

func ExampleRouter_DecodeEvent() {
	type Price struct {
		Cents int `json:"cents" validate:"min=1"`
	}
	r := router.New()
	router.Declare[Price](r, "price")
	for _, payload := range []string{`{"cents": 250}`, `{"cents": 0}`} { // from another program
		price, err := r.DecodeEvent("price", []byte(payload))
		if err != nil {
			fmt.Println(errors.From(err).Message)
			continue
		}
		fmt.Println(price)
	}
	// Output:
	// {250}
	// payload is not valid: cents does not pass min
}
