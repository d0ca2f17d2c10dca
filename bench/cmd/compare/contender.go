package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/wskit/wskit/bench/rival"
)

const modulePath = "github.com/wskit/wskit/bench"

// ours is the name under which wskit competes.
const ours = "wskit"

// contender is one server in the comparison.
type contender struct {
	name    string
	binary  string
	args    []string
	library string // module and version, for the page
	fans    bool   // offers fan-out
	tls     bool   // is to serve TLS
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
func build(ctx context.Context, dir string, secure bool) ([]contender, error) {
	var contenders []contender

	echo := filepath.Join(dir, "echo")
	if err := goBuild(ctx, echo, modulePath+"/cmd/echo"); err != nil {
		log.Printf("compare: wskit does not compile, the rivals are measured alone: %v", err)
	} else {
		contenders = append(contenders, contender{
			name: ours, binary: echo, library: "github.com/wskit/wskit, this checkout", fans: true, tls: secure,
		})
	}

	rivals := filepath.Join(dir, "rival")
	if err := goBuild(ctx, rivals, modulePath+"/cmd/rival"); err != nil {
		return nil, err
	}
	versions, err := moduleVersions(rivals)
	if err != nil {
		return nil, err
	}
	for _, kind := range rival.Kinds() {
		routes, _ := rival.Routes(kind)
		contenders = append(contenders, contender{
			name:    kind,
			binary:  rivals,
			args:    []string{"-kind", kind},
			library: modules[kind] + " " + versions[modules[kind]],
			fans:    routes.Fan != nil,
			tls:     secure,
		})
	}
	return contenders, nil
}

func goBuild(ctx context.Context, output, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", output, pkg)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compare: building %s (run this inside bench/): %w", pkg, err)
	}
	return nil
}

// moduleVersions reads from the binary itself which versions were measured.
func moduleVersions(binary string) (map[string]string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string)
	for _, dep := range info.Deps {
		versions[dep.Path] = dep.Version
	}
	return versions, nil
}
