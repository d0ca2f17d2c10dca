package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/bench/server"
)

const (
	connections = 8
	hangGuard   = 30 * time.Second
)

// measure returns the server's CPU time in microseconds and its allocations for a
// frame of a kind.
func measure(ctx context.Context, k kind, refused bool, duration time.Duration) (cpu, allocs float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", "-refuse="+strconv.FormatBool(refused))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = cmd.Process.Kill() // fails only when it has ended already
		_ = cmd.Wait()         // always reports the kill
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		return 0, 0, fmt.Errorf("the server said %q: %v", line, err)
	}

	var clients []*client
	defer func() {
		for _, c := range clients {
			c.nc.Close()
		}
	}()
	for range connections {
		c, err := dial(addr, k)
		if err != nil {
			return 0, 0, err
		}
		clients = append(clients, c)
	}
	if _, err := flood(clients, duration/4, refused); err != nil {
		return 0, 0, err
	}
	mallocs, err := mallocsOf(addr)
	if err != nil {
		return 0, 0, err
	}
	before, err := server.CPUTime(cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	n, err := flood(clients, duration, refused)
	if err != nil {
		return 0, 0, err
	}
	after, err := server.CPUTime(cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	mallocsAfter, err := mallocsOf(addr)
	if err != nil {
		return 0, 0, err
	}
	return float64((after - before).Microseconds()) / float64(n), float64(mallocsAfter-mallocs) / float64(n), nil
}

// flood has all clients send for a while, and returns how many frames were answered.
func flood(clients []*client, duration time.Duration, refused bool) (int64, error) {
	var all sync.WaitGroup
	var n atomic.Int64
	errs := make(chan error, len(clients))
	until := time.Now().Add(duration)
	for _, c := range clients {
		all.Go(func() {
			for time.Now().Before(until) {
				if err := c.exchange(refused); err != nil {
					errs <- err
					return
				}
				n.Add(int64(c.inFlight))
			}
		})
	}
	all.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return 0, err
	}
	return n.Load(), nil
}

// client sends the same frames again and again.
type client struct {
	nc       net.Conn
	br       *bufio.Reader
	batch    []byte
	inFlight int
	answered bool // the first answer, which even a server that refuses may give
}

func dial(addr string, k kind) (*client, error) {
	nc, err := net.DialTimeout("tcp", addr, hangGuard)
	if err != nil {
		return nil, err
	}
	c := &client{nc: nc, br: bufio.NewReaderSize(nc, 64<<10), batch: bytes.Repeat(k.frame, k.inFlight), inFlight: k.inFlight}
	_ = nc.SetDeadline(time.Now().Add(hangGuard))
	_, err = fmt.Fprintf(nc, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", addr)
	if err == nil {
		var res *http.Response
		if res, err = http.ReadResponse(c.br, nil); err == nil && res.StatusCode != http.StatusSwitchingProtocols {
			err = fmt.Errorf("the handshake is answered %s", res.Status)
		}
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

var refusal = []byte(`"RESOURCE_EXHAUSTED"`)

// exchange sends a batch and reads its answers, all of which are small.
func (c *client) exchange(refused bool) error {
	_ = c.nc.SetDeadline(time.Now().Add(hangGuard))
	sent := make(chan error, 1)
	go func() {
		_, err := c.nc.Write(c.batch)
		sent <- err
	}()
	for range c.inFlight {
		head, err := c.br.Peek(4)
		if err != nil {
			return err
		}
		n := 2 + int(head[1])
		if head[1] == 126 {
			n = 4 + int(head[2])<<8 + int(head[3])
		}
		if head[0] != 0x81 || head[1] > 126 {
			return fmt.Errorf("got the frame %#x", head)
		}
		answer, err := c.br.Peek(n)
		if err != nil {
			return err
		}
		if is := bytes.Contains(answer, refusal); is != refused && c.answered {
			return fmt.Errorf("got %s", answer[2:])
		}
		c.answered = true
		if _, err := c.br.Discard(n); err != nil {
			return err
		}
	}
	return <-sent
}

func mallocsOf(addr string) (uint64, error) {
	res, err := http.Get("http://" + addr + "/debug/mem")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var m server.Memory
	err = json.NewDecoder(res.Body).Decode(&m)
	return m.Mallocs, err
}
