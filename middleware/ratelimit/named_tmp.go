package ratelimit

import "github.com/wskit/wskit/limit"

func named(o limit.Options, suffix string) limit.Options {
	if o.Name != "" {
		o.Name += suffix
	}
	return o
}
