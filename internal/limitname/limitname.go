// Package limitname is for what makes several limiters out of the options of one.
package limitname

import (
	"fmt"

	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// With returns options with a suffix behind the name, if there is one.
func With(o limit.Options, suffix string) limit.Options {
	if o.Name != "" {
		o.Name += suffix
	}
	return o
}

// Must panics if limiters over a store need a name that is not set. A store in this process needs none. The panic names
// the package, its constructor and the options.
func Must(in, constructor, options string, store limit.Store, o limit.Options) {
	if _, local := store.(engine.LocalStore); store != nil && !local && o.Name == "" {
		panic(fmt.Sprintf("%s: %s over a shared store needs a name for its keys: set %s.Limiter to limit.Options{Name: \"chat\"}", in, constructor, options))
	}
}
