// Package given is for constructors and calls whose last argument is a struct of options that may be left out. Go has
// no such argument; they take any number of them, and this package returns the one.
package given

import (
	"fmt"
	"reflect"

	"github.com/wskit/wskit/errors"
)

// Options returns the options of what in a package, or the zero value if there are none. More than one are an INTERNAL
// error.
func Options[O any](pkg, what string, all []O) (o O, err error) {
	switch len(all) {
	case 0:
		return o, nil
	case 1:
		return all[0], nil
	default:
		return o, errors.Internal.New(tooMany(pkg, what, all))
	}
}

// Must is Options for what is done once, when a program starts. It panics for more than one.
func Must[O any](pkg, what string, all []O) (o O) {
	if len(all) > 1 {
		panic(tooMany(pkg, what, all))
	}
	o, _ = Options(pkg, what, all)
	return o
}

func tooMany[O any](pkg, what string, all []O) string {
	return fmt.Sprintf("%s: %s has %d %s; merge them into one", pkg, what, len(all), reflect.TypeFor[O]().Name())
}
