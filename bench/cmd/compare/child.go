package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/server"
)

// child is one server process, alive for one measurement.
type child struct {
	cmd  *exec.Cmd
	addr string
	tls  bool
}

// start runs the contender on a port the kernel chooses and waits for its address.
func (c contender) start(ctx context.Context, extra ...string) (*child, error) {
	args := append([]string{"-addr", "127.0.0.1:0", "-tls=" + strconv.FormatBool(c.tls)}, c.args...)
	cmd := exec.CommandContext(ctx, c.binary, append(args, extra...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ch := &child{cmd: cmd, tls: c.tls}

	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				address <- addr
				break
			}
		}
		close(address)
		_, _ = io.Copy(io.Discard, stdout) // a full pipe must not block the server
	}()
	select {
	case addr, ok := <-address:
		if !ok {
			ch.stop()
			return nil, errors.New("the server ended before it printed its address")
		}
		ch.addr = addr
		return ch, nil
	case <-time.After(10 * time.Second):
		ch.stop()
		return nil, errors.New("the server printed no address within 10 s")
	}
}

// stop kills the process by its own id and reaps it.
func (ch *child) stop() {
	_ = ch.cmd.Process.Kill() // fails only when it has ended already
	_ = ch.cmd.Wait()         // always reports the kill
}

func (ch *child) target(path string) load.Target {
	return load.Target{Addr: ch.addr, Path: path, TLS: ch.tls}
}

// memory asks the server to collect its garbage, to give the freed pages back, and to
// say what is left.
func (ch *child) memory(ctx context.Context) (server.Memory, error) {
	scheme := "http"
	if ch.tls {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+ch.addr+"/debug/mem?release", nil)
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
