package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/router"
)

// class is a class of requests.
type class int

const (
	paying class = iota
	other
	report
	classes
)

// shares are those of each class in all requests.
var shares = [classes]float64{0.1, 0.5, 0.4}

const hangGuard = 30 * time.Second

type clients struct {
	settings
	addr string
	all  []*client
}

// client is a connection of a user.
type client struct {
	nc     net.Conn
	br     *bufio.Reader
	pays   bool
	next   atomic.Int64
	mu     sync.Mutex
	opened map[int64]request
	answer chan bool // of a request of closed
	run    atomic.Pointer[tally]
}

type request struct {
	due   time.Time
	class class
}

func connect(addr string, s settings) (*clients, error) {
	cs := &clients{settings: s, addr: addr}
	for i := range s.clients {
		c := &client{pays: i%10 == 0, opened: make(map[int64]request), answer: make(chan bool, 1)}
		tier := "free"
		if c.pays {
			tier = "paid"
		}
		var err error
		if c.nc, c.br, err = load.Dial(load.Target{Addr: addr, Path: fmt.Sprintf("/ws?user=u%d&tier=%s", i, tier)}); err != nil {
			cs.close()
			return nil, err
		}
		cs.all = append(cs.all, c)
		go c.read()
	}
	return cs, nil
}

func (cs *clients) close() {
	for _, c := range cs.all {
		c.nc.Close()
	}
}

// send sends a request. It blocks while the server does not read.
func (c *client) send(class class, due time.Time) error {
	id := c.next.Add(1)
	typ := "work"
	if class == report {
		typ = "report"
	}
	c.mu.Lock()
	c.opened[id] = request{due, class}
	c.mu.Unlock()
	body := fmt.Appendf(nil, `{"type":%q,"meta":{"correlationId":"%d"},"payload":{"n":1}}`, typ, id)
	_, err := c.nc.Write(append([]byte{0x81, 0x80 | byte(len(body)), 0, 0, 0, 0}, body...)) // masked with nothing but zeros
	return err
}

// read reads answers until the connection ends.
func (c *client) read() {
	var head [4]byte
	for {
		if _, err := io.ReadFull(c.br, head[:2]); err != nil {
			return
		}
		n := int(head[1])
		if n == 126 {
			if _, err := io.ReadFull(c.br, head[2:4]); err != nil {
				return
			}
			n = int(head[2])<<8 | int(head[3])
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(c.br, frame); err != nil {
			return
		}
		if head[0] == 0x89 {
			continue // a ping: the answers of the connection show that it is alive
		}
		c.took(frame)
	}
}

func (c *client) took(frame []byte) {
	_, rest, _ := bytes.Cut(frame, []byte(`"correlationId":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	id, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return
	}
	ok := !bytes.HasPrefix(frame, []byte(`{"type":"RPC_ERROR"`))
	c.mu.Lock()
	q, found := c.opened[id]
	delete(c.opened, id)
	c.mu.Unlock()
	if !found {
		return
	}
	select {
	case c.answer <- ok:
	default:
	}
	if t := c.run.Load(); t != nil && !q.due.Before(t.from) {
		t.answered(q, ok)
	}
}

// tally counts the requests that are due in a time.
type tally struct {
	from  time.Time
	waits time.Duration

	mu      sync.Mutex
	sent    [classes]int
	done    [classes]int
	refused [classes]int
	latency []time.Duration
}

func (t *tally) answered(q request, ok bool) {
	took := time.Since(q.due)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ok {
		t.refused[q.class]++
	}
	if !ok || took > t.waits {
		return
	}
	t.done[q.class]++
	t.latency = append(t.latency, took)
}

// closed returns how many requests a second are completed while each client has one open.
func (cs *clients) closed(ctx context.Context, lasts time.Duration) float64 {
	var all sync.WaitGroup
	var done atomic.Int64
	until := time.Now().Add(lasts)
	for _, c := range cs.all {
		all.Go(func() {
			select {
			case <-c.answer:
			default:
			}
			for time.Now().Before(until) && ctx.Err() == nil {
				if c.send(other, time.Now()) != nil {
					return
				}
				select {
				case ok := <-c.answer:
					if ok {
						done.Add(1)
					} else {
						time.Sleep(10 * time.Millisecond)
					}
				case <-time.After(hangGuard):
					return
				}
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / lasts.Seconds()
}

// open sends requests at a rate, at random times, whatever the server does, and returns what became
// of them.
func (cs *clients) open(ctx context.Context, rate float64, lasts time.Duration) figures {
	t := &tally{from: time.Now(), waits: cs.waits}
	var payers, others []*client
	for _, c := range cs.all {
		c.run.Store(t)
		if c.pays {
			payers = append(payers, c)
		} else {
			others = append(others, c)
		}
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for _, of := range []struct {
		class class
		from  []*client
	}{{paying, payers}, {other, others}, {report, others}} {
		for _, c := range of.from {
			all.Go(func() { c.stream(of.class, rate*shares[of.class]/float64(len(of.from)), t, lasts, stop) })
		}
	}
	wait := cs.watch(lasts)
	select {
	case <-time.After(lasts + cs.waits - time.Since(t.from)): // the last ones may be answered
	case <-ctx.Done():
	}
	for _, c := range cs.all {
		c.run.Store(nil)
		_ = c.nc.SetWriteDeadline(time.Now().Add(hangGuard))
	}
	close(stop)
	all.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	f := figures{wait: wait}
	for class := range classes {
		f.offered += float64(t.sent[class]) / lasts.Seconds()
		f.completed += float64(t.done[class]) / lasts.Seconds()
		f.refused[class] = float64(t.refused[class]) / float64(max(1, t.sent[class]))
		f.byClass[class] = float64(t.done[class]) / float64(max(1, t.sent[class]))
	}
	slices.Sort(t.latency)
	if len(t.latency) > 0 {
		f.p50, f.p99 = stats.Millis(stats.Quantile(t.latency, 0.5)), stats.Millis(stats.Quantile(t.latency, 0.99))
	}
	return f
}

// stream sends requests when they are due, or as soon after that as the server reads.
func (c *client) stream(class class, rate float64, t *tally, lasts time.Duration, stop chan struct{}) {
	due := t.from
	for {
		due = due.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		if due.Sub(t.from) > lasts {
			return
		}
		t.mu.Lock()
		t.sent[class]++
		t.mu.Unlock()
		select {
		case <-stop: // is due, and was not sent
			continue
		case <-time.After(time.Until(due)):
		}
		if c.send(class, due) != nil {
			return
		}
	}
}

// watch returns the median of the wait that the server measures.
func (cs *clients) watch(lasts time.Duration) float64 {
	var waits []time.Duration
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		res, err := http.Get("http://" + cs.addr + "/ws?stats")
		if err != nil {
			continue
		}
		var overload router.OverloadStats
		if json.NewDecoder(res.Body).Decode(&overload) == nil {
			waits = append(waits, overload.Wait)
		}
		res.Body.Close()
	}
	if len(waits) == 0 {
		return 0
	}
	return stats.Median(waits, stats.Millis)
}
