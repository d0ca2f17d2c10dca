package main

import (
	"context"
	"log"

	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/rival"
)

// ours is the name under which wskit competes.
const ours = "wskit"

// contender is one server in the comparison.
type contender struct {
	name    string
	binary  string
	args    []string
	library string // for the page
	fans    bool   // offers fan-out
	tls     bool   // is to serve TLS
	deflate bool   // is to compress
}

// modules names the library behind each rival.
var modules = map[string]string{
	"coder":   "github.com/coder/websocket",
	"gorilla": "github.com/gorilla/websocket",
	"gws":     "github.com/lxzan/gws",
	"melody":  "github.com/olahol/melody",
}

// build compiles the servers into dir. The rivals must compile; a wskit that does not
// is left out with a warning, so that the rivals' figures can be had at any time.
func build(ctx context.Context, dir string, s settings) ([]contender, error) {
	var contenders []contender

	if echo, err := process.Build(ctx, dir, process.Cmd+"echo"); err != nil {
		log.Printf("compare: wskit does not compile, the rivals are measured alone: %v", err)
	} else {
		contenders = append(contenders, contender{
			name: ours, binary: echo, library: page.Library(ours, "github.com/wskit/wskit"), fans: true, tls: s.tls, deflate: s.compress,
		})
	}

	rivals, err := process.Build(ctx, dir, process.Cmd+"rival")
	if err != nil {
		return nil, err
	}
	for _, kind := range rival.Kinds() {
		routes, _ := rival.Routes(kind, s.compress)
		contenders = append(contenders, contender{
			name:    kind,
			binary:  rivals,
			args:    []string{"-kind", kind},
			library: page.Library(kind, modules[kind]),
			fans:    routes.Fan != nil,
			tls:     s.tls,
			deflate: s.compress,
		})
	}
	return contenders, nil
}
