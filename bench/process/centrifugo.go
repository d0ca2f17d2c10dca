package process

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Centrifugo is the module of the rival that is a program, with its version.
const Centrifugo = "github.com/centrifugal/centrifugo/v6@v6.9.1"

// StartCentrifugo installs it, where it is not yet, and starts it on a free port of 127.0.0.1, with a configuration.
// The folder is for files. The caller stops it.
func StartCentrifugo(ctx context.Context, folder string, config map[string]any) (*Process, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(cache, "wskit-bench")
	program := filepath.Join(bin, "centrifugo")
	if _, err := os.Stat(program); err != nil {
		install := exec.CommandContext(ctx, "go", "install", Centrifugo)
		install.Dir = folder // outside of this module
		install.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
		if err := Quietly(install); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().(*net.TCPAddr)
	_ = ln.Close()
	config["http_server"] = map[string]any{"address": "127.0.0.1", "port": strconv.Itoa(addr.Port)}
	config["log"] = map[string]any{"level": "error"}
	document, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(folder, "centrifugo.json")
	if err := os.WriteFile(name, document, 0o600); err != nil {
		return nil, err
	}
	p, err := Start(ctx, "/bin/sh", "-c", `echo "http://$0"; exec "$1" --config "$2"`, addr.String(), program, name)
	if err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", addr.String()); err == nil {
			return p, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, ctx.Err()
}
