// Package rival holds the servers wskit is measured against, one file each, written
// the way an experienced user of that library would write this server by hand: no
// router, no limiter, no metrics, one message type.
package rival

import (
	"sort"

	"github.com/wskit/wskit/bench/server"
)

// kinds build the handlers. Those that compress take permessage-deflate without context takeover, as wskit does: the
// other kind keeps a window for each connection.
var kinds = map[string]func(compress bool) server.Routes{
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
func Routes(kind string, compress bool) (routes server.Routes, ok bool) {
	build, ok := kinds[kind]
	if !ok {
		return server.Routes{}, false
	}
	return build(compress), true
}
