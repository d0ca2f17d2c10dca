// Package rival holds the servers wskit is measured against, one file each, written
// the way an experienced user of that library would write this server by hand: no
// router, no limiter, no metrics, one message type.
package rival

import (
	"sort"

	"github.com/wskit/wskit/bench/server"
)

var kinds = map[string]func() server.Routes{
	"coder":   coderRoutes,
	"gorilla": gorillaRoutes,
	"gws":     gwsRoutes,
	"melody":  melodyRoutes,
}

// Kinds lists the rivals by name, sorted.
func Kinds() []string {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Routes returns the named rival's handlers; ok is false for an unknown name.
func Routes(kind string) (routes server.Routes, ok bool) {
	build, ok := kinds[kind]
	if !ok {
		return server.Routes{}, false
	}
	return build(), true
}
