package load

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wskit/wskit/bench/stats"
)

// ReconnectPlan is what clients do whose connections end.
type ReconnectPlan struct {
	To Target // where they connect again; without TLS
	// Within is the time within which a client reconnects, at random, unless the reason of its close frame says when:
	// {"retryAfterMs":n}.
	Within time.Duration
}

// ReconnectResult is how all of them have reconnected.
type ReconnectResult struct {
	Advised  int           // clients whose close frames said when
	Failed   int           // attempts that were refused, or cut off; each is repeated after a while
	Last     time.Time     // when the last client got the answer to its first request
	P50, P99 time.Duration // from a client's first attempt to that answer
}

// again is how long a client waits after an attempt that failed.
const again = 50 * time.Millisecond

// Reconnect holds the connections of the swarm until they are lost, has each client connect again and send a request,
// and returns when all of them have been answered.
func (s *Swarm) Reconnect(ctx context.Context, plan ReconnectPlan) (ReconnectResult, error) {
	addr, err := loopback(plan.To.Addr)
	if err != nil {
		return ReconnectResult{}, err
	}
	if plan.To.TLS || plan.To.Deflate || plan.Within <= 0 {
		return ReconnectResult{}, errors.New("load: clients come back without TLS and compression, and need a time within which they do")
	}
	r := &reconnectRun{
		swarm: s, plan: plan, addr: addr, random: rand.New(rand.NewPCG(1, 2)), began: time.Now(), request: s.requests(1).run(0, 1),
		clients: make([]reconnecting, len(s.conns)), left: len(s.conns),
	}
	r.progress = r.began
	if err := r.drive(ctx); err != nil {
		return ReconnectResult{}, err
	}
	slices.Sort(r.latencies)
	r.result.P50, r.result.P99 = stats.Quantile(r.latencies, 0.5), stats.Quantile(r.latencies, 0.99)
	return r.result, nil
}

type reconnectRun struct {
	swarm   *Swarm
	plan    ReconnectPlan
	addr    netip.AddrPort
	random  *rand.Rand
	began   time.Time
	request []byte

	clients   []reconnecting // by connection
	waiting   waits
	left      int // clients that are not back
	lost      bool
	progress  time.Time
	latencies []time.Duration
	result    ReconnectResult
}

// reconnecting is a client on its way back.
type reconnecting struct {
	phase
	first time.Duration // when its first attempt began
	head  []byte        // of the answer to the handshake
}

type phase int

const (
	held       phase = iota // the connection that is to be lost
	away                    // waits for the time to come back
	connecting              // waits for TCP
	upgrading               // waits for the answer to the handshake
	asking                  // waits for the answer to its request
	back
)

func (r *reconnectRun) drive(ctx context.Context) error {
	events := make([]unix.EpollEvent, 1024)
	for r.left > 0 {
		next, err := r.due()
		if err != nil {
			return err
		}
		n, err := r.swarm.wait(events, min(next, longestWait))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("load: epoll: %w", err)
		}
		for i := range max(n, 0) {
			r.handle(int(events[i].Fd), events[i].Events)
		}
		if n > 0 {
			r.progress = time.Now()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.lost && len(r.waiting) == 0 && time.Since(r.progress) > stallAfter {
			return fmt.Errorf("load: %d of %d clients are not back, and nothing has come for %v", r.left, len(r.clients), stallAfter)
		}
	}
	return nil
}

// due begins the attempts whose time has come, and returns how long it is until the next one.
func (r *reconnectRun) due() (time.Duration, error) {
	for len(r.waiting) > 0 {
		now := time.Since(r.began)
		if w := r.waiting[0]; now < w.at {
			return w.at - now, nil
		}
		i := heap.Pop(&r.waiting).(wait).client
		c := &r.clients[i]
		if c.first == 0 {
			c.first = now
		}
		fd, err := connect(r.addr, "", unix.SOCK_NONBLOCK)
		if err != nil {
			return 0, err
		}
		r.swarm.conns[i] = &conn{fd: fd}
		if err := r.swarm.watch(fd, i); err != nil {
			return 0, err
		}
		c.phase, c.head = connecting, nil
	}
	return longestWait, nil
}

// handle moves a client on by what has happened on its connection.
func (r *reconnectRun) handle(i int, events uint32) {
	c, client := r.swarm.conns[i], &r.clients[i]
	if client.phase == away || c.fd < 0 {
		return
	}
	if client.phase == connecting {
		if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
			return
		}
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			r.lose(i, -1)
			return
		}
		client.phase = upgrading
		if c.send(upgradeRequest(r.addr, r.plan.To)) != nil {
			r.lose(i, -1)
			return
		}
	}
	for {
		n, err := readRetrying(c.fd, r.swarm.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			r.lose(i, -1)
			return
		}
		if advice, err := r.took(i, r.swarm.buf[:n]); err != nil {
			r.lose(i, advice)
			return
		}
	}
}

// took reads what a client was sent. With an error the connection is lost, and advice is when to come back, or
// negative.
func (r *reconnectRun) took(i int, in []byte) (advice time.Duration, err error) {
	c, client := r.swarm.conns[i], &r.clients[i]
	if client.phase == upgrading {
		client.head = append(client.head, in...)
		head, rest, whole := bytes.Cut(client.head, []byte("\r\n\r\n"))
		if !whole {
			return -1, nil
		}
		if err := c.checkUpgrade(head); err != nil {
			return -1, err
		}
		client.phase, in = asking, rest
		if err := c.send(r.request); err != nil {
			return -1, err
		}
	}
	for len(in) > 0 {
		f, rest, ok, err := c.scanner.next(in)
		if err != nil || !ok {
			return -1, err
		}
		in = rest
		switch {
		case f.opcode == opPing:
			err = c.send(appendMasked(nil, opPong, f.payload))
		case f.opcode == opClose:
			_ = c.send(appendMasked(nil, opClose, f.payload[:min(2, len(f.payload))]))
			return adviceOf(f.payload), errServerClosed
		case client.phase == asking && bytes.Contains(f.payload, answeredMark):
			r.answered(client)
		}
		if err != nil {
			return -1, err
		}
	}
	return -1, nil
}

// adviceOf is the wait in a close frame, or negative.
func adviceOf(payload []byte) time.Duration {
	var reason struct{ RetryAfterMs *int64 }
	if len(payload) < 2 || json.Unmarshal(payload[2:], &reason) != nil || reason.RetryAfterMs == nil {
		return -1
	}
	return time.Duration(*reason.RetryAfterMs) * time.Millisecond
}

func (r *reconnectRun) answered(c *reconnecting) {
	c.phase = back
	r.left--
	r.result.Last = time.Now()
	r.latencies = append(r.latencies, time.Since(r.began)-c.first)
}

// lose closes a connection and has the client wait.
func (r *reconnectRun) lose(i int, advice time.Duration) {
	client := &r.clients[i]
	unix.Close(r.swarm.conns[i].fd)
	r.swarm.conns[i].fd = -1
	r.lost = true
	after := advice
	switch {
	case client.phase == back:
		r.left++ // it needs another answer
		fallthrough
	case client.phase != held:
		r.result.Failed++
		if after < 0 {
			after = again
		}
	case after >= 0:
		r.result.Advised++
	default:
		after = time.Duration(r.random.Int64N(int64(r.plan.Within)))
	}
	client.phase = away
	heap.Push(&r.waiting, wait{time.Since(r.began) + after, i})
}

// wait is until when a client is away.
type wait struct {
	at     time.Duration
	client int
}

// waits is a heap, the earliest first.
type waits []wait

func (w waits) Len() int           { return len(w) }
func (w waits) Less(i, j int) bool { return w[i].at < w[j].at }
func (w waits) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waits) Push(x any)        { *w = append(*w, x.(wait)) }
func (w *waits) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
