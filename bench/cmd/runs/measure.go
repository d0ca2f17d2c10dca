package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	swarm "github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

// figures are those of a measurement: CPU for a token in µs, frames in a second, and the time from a token to its
// client and from a stop to its answer, in ms.
type figures struct{ cpu, frames, p50, p99, stop float64 }

var errTooSlow = errors.New("the machine is too slow for so many")

// watched is every how many connections measures the time of its tokens.
const watched = 50

// client is a connection that watches an answer.
type client struct {
	nc   net.Conn
	br   *bufio.Reader
	run  string
	late bool // it measures the time of its tokens

	sum  *counts
	done chan struct{} // closed when it has stopped
}

// counts are of all clients.
type counts struct {
	tokens atomic.Int64
	on     atomic.Bool

	mu    sync.Mutex
	times []time.Duration
}

func (l load) measure(ctx context.Context, plain bool, duration time.Duration) (f figures, err error) {
	p, err := process.Start(
		ctx, os.Args[0], "-serve", "-plain="+strconv.FormatBool(plain), "-tokens="+strconv.Itoa(l.perSecond),
	)
	if err != nil {
		return f, err
	}
	defer p.Stop()
	var sum counts
	var clients []*client
	defer func() {
		for _, c := range clients {
			c.nc.Close()
		}
	}()
	for i := range l.runs {
		c := &client{late: i%watched == 0, sum: &sum, done: make(chan struct{})}
		if c.nc, c.br, err = swarm.Dial(swarm.Target{Addr: p.Addr, Path: "/ws"}); err != nil {
			return f, err
		}
		clients = append(clients, c)
		if err := c.begin(plain); err != nil {
			return f, err
		}
		go c.read()
	}
	time.Sleep(duration / 5)
	before, err := frames(p.Addr)
	if err != nil {
		return f, err
	}
	sum.on.Store(true)
	began := time.Now()
	used, err := p.CPUDuring(func() error { time.Sleep(duration); return nil })
	if err != nil {
		return f, err
	}
	seconds, tokens := time.Since(began).Seconds(), sum.tokens.Load()
	sum.on.Store(false)
	after, err := frames(p.Addr)
	if err != nil {
		return f, err
	}
	if want := float64(l.runs*l.perSecond) * seconds; float64(tokens) < want*0.9 {
		return f, fmt.Errorf("%d tokens came, of %.0f; %w", tokens, want, errTooSlow)
	}
	sum.mu.Lock()
	slices.Sort(sum.times)
	f = figures{
		cpu: stats.Micros(used) / float64(tokens), frames: float64(after-before) / seconds,
		p50: stats.Millis(stats.Quantile(sum.times, 0.5)), p99: stats.Millis(stats.Quantile(sum.times, 0.99)),
	}
	sum.mu.Unlock()
	if !plain {
		f.stop, err = stops(clients[:min(len(clients), 500)])
	}
	return f, err
}

// begin asks, and attaches to the run.
func (c *client) begin(plain bool) error {
	if err := c.send(`{"type":"ask","meta":{"correlationId":"1"},"payload":{}}`); err != nil {
		return err
	}
	for {
		f, err := c.frame()
		if err != nil {
			return err
		}
		var reply struct {
			Type    string
			Payload struct{ Run string }
		}
		if err := json.Unmarshal(f, &reply); err != nil {
			return err
		}
		switch {
		case reply.Type == "RPC_ERROR":
			return fmt.Errorf("the server refuses: %s", f)
		case reply.Type != "ask.reply":
			continue
		case plain:
			return nil
		}
		c.run = reply.Payload.Run
		return c.send(`{"type":"run.attach","meta":{"correlationId":"2"},"payload":{"run":"` + c.run + `"}}`)
	}
}

// read counts tokens until the connection ends.
func (c *client) read() {
	for {
		f, err := c.frame()
		if err != nil {
			return
		}
		text := string(f)
		if strings.HasPrefix(text, `{"type":"run.stop.reply"`) {
			close(c.done)
			continue
		}
		_, after, ok := strings.Cut(text, `"text":"`)
		if !ok || !c.sum.on.Load() {
			continue
		}
		tokens, _, _ := strings.Cut(after, `"`)
		now := time.Now()
		c.sum.tokens.Add(int64(strings.Count(tokens, " ")))
		if !c.late {
			continue
		}
		for word := range strings.FieldsSeq(tokens) {
			if made, err := strconv.ParseInt(word, 10, 64); err == nil {
				c.sum.mu.Lock()
				c.sum.times = append(c.sum.times, now.Sub(time.UnixMicro(made)))
				c.sum.mu.Unlock()
			}
		}
	}
}

// stops is how long it takes to stop runs one after the other, p99 in ms.
func stops(clients []*client) (float64, error) {
	var times []time.Duration
	for _, c := range clients {
		began := time.Now()
		if err := c.send(`{"type":"run.stop","meta":{"correlationId":"3"},"payload":{"run":"` + c.run + `"}}`); err != nil {
			return 0, err
		}
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			return 0, fmt.Errorf("a run was not stopped in 10 s")
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return stats.Millis(stats.Quantile(times, 0.99)), nil
}

// send sends a frame of less than 126 bytes or more, with a mask of zeros.
func (c *client) send(text string) error {
	head := []byte{0x81, 0x80 | byte(len(text))}
	if len(text) > 125 {
		head = binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text)))
	}
	_, err := c.nc.Write(append(append(head, 0, 0, 0, 0), text...))
	return err
}

// frame reads a frame. Its content is valid until the next one is read.
func (c *client) frame() ([]byte, error) {
	head, err := c.br.Peek(2)
	if err != nil {
		return nil, err
	}
	size, skip := int(head[1]), 2
	switch size {
	case 126:
		skip = 4
		if head, err = c.br.Peek(4); err == nil {
			size = int(binary.BigEndian.Uint16(head[2:]))
		}
	case 127:
		skip = 10
		if head, err = c.br.Peek(10); err == nil {
			size = int(binary.BigEndian.Uint64(head[2:]))
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.br.Discard(skip); err != nil {
		return nil, err
	}
	f := make([]byte, size)
	_, err = io.ReadFull(c.br, f)
	return f, err
}

// frames is how many frames the server has sent.
func frames(addr string) (n int64, err error) {
	resp, err := http.Get("http://" + addr + "/figures")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = fmt.Fscan(resp.Body, &n)
	return n, err
}
