package api

import (
	"context"

	"github.com/wskit/wskit/router"
)

// call is a call that services can make.
type call struct {
	name, doc string
	// declare declares the Go types of its parameters and its result, which decode and describe them.
	declare func(*router.Router)
	// about says what the parameters ask for; run does it. They get what DecodeEvent has made of them.
	about func(params any) Call
	run   func(ctx context.Context, h *handler, params any) (result any, err error)
}

// define makes a call with parameters P and a result R.
func define[P, R any](name, doc string, about func(P) Call, run func(context.Context, *handler, P) (R, error)) *call {
	return &call{
		name: name, doc: doc,
		declare: func(types *router.Router) {
			router.Declare[P](types, name, router.EventOptions{Doc: doc})
			router.Declare[R](types, resultOf(name))
		},
		about: func(params any) Call {
			c := about(params.(P))
			c.Name = name
			return c
		},
		run: func(ctx context.Context, h *handler, params any) (any, error) { return run(ctx, h, params.(P)) },
	}
}

func resultOf(name string) string { return name + ".result" }

// none is the result of a call that has no other than that it succeeded.
type none struct{}
