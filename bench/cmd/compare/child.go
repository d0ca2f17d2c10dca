package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/server"
)

// child is one server process, alive for one measurement.
type child struct {
	*process.Process
	tls, deflate bool
}

// start runs the contender on a port the kernel chooses and waits for its address.
func (c contender) start(ctx context.Context, extra ...string) (*child, error) {
	args := append([]string{"-addr", "127.0.0.1:0", "-tls=" + strconv.FormatBool(c.tls), "-compress=" + strconv.FormatBool(c.deflate)}, c.args...)
	p, err := process.Start(ctx, c.binary, append(args, extra...)...)
	if err != nil {
		return nil, err
	}
	return &child{Process: p, tls: c.tls, deflate: c.deflate}, nil
}

func (ch *child) target(path string) load.Target {
	return load.Target{Addr: ch.Addr, Path: path, TLS: ch.tls, Deflate: ch.deflate}
}

// memory asks the server to collect its garbage, to give the freed pages back, and to
// say what is left.
func (ch *child) memory(ctx context.Context) (server.Memory, error) {
	scheme := "http"
	if ch.tls {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+ch.Addr+"/debug/mem?release", nil)
	if err != nil {
		return server.Memory{}, err
	}
	// A connection kept alive would count among the idle ones.
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate is the server's own
	}, Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return server.Memory{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return server.Memory{}, fmt.Errorf("/debug/mem answers %s", res.Status)
	}
	var m server.Memory
	return m, json.NewDecoder(res.Body).Decode(&m)
}
