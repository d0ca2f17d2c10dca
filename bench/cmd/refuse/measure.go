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
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/stats"
)

const (
	connections = 8
	hangGuard   = 30 * time.Second
)

// measure returns the figures of a kind, with a server of its own.
func measure(ctx context.Context, k kind, refused bool, duration time.Duration) (f figures, err error) {
	p, err := process.Start(ctx, os.Args[0], "-serve", "-refuse="+strconv.FormatBool(refused))
	if err != nil {
		return f, err
	}
	defer p.Stop()
	var clients []*client
	defer func() {
		for _, c := range clients {
			c.nc.Close()
		}
	}()
	for range connections {
		c, err := dial(p.Addr, k)
		if err != nil {
			return f, err
		}
		clients = append(clients, c)
	}
	if _, err := flood(clients, duration/4, refused); err != nil {
		return f, err
	}
	before, err := mallocsOf(p.Addr)
	if err != nil {
		return f, err
	}
	var n int64
	used, err := p.CPUDuring(func() (err error) { n, err = flood(clients, duration, refused); return err })
	if err != nil {
		return f, err
	}
	after, err := mallocsOf(p.Addr)
	return figures{cpu: stats.Micros(used) / float64(n), allocs: float64(after-before) / float64(n)}, err
}

// flood has all clients send for a while, at least once, and returns how many frames were answered.
func flood(clients []*client, duration time.Duration, refused bool) (int64, error) {
	var all sync.WaitGroup
	var n atomic.Int64
	errs := make(chan error, len(clients))
	until := time.Now().Add(duration)
	for _, c := range clients {
		all.Go(func() {
			for again := true; again; again = time.Now().Before(until) {
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
	nc, br, err := load.Dial(load.Target{Addr: addr, Path: "/ws", Deflate: true})
	return &client{nc: nc, br: br, batch: bytes.Repeat(k.frame, k.inFlight), inFlight: k.inFlight}, err
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
