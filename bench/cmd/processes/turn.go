package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

// programs are what a turn runs.
type programs struct{ node, load string }

// figures are those of one kind of server in a round.
type figures struct {
	all, rooms phase
	memory     float64 // MB
}

// phase is what was measured of one kind of message.
type phase struct {
	cpu     float64 // of the servers for a delivery, in µs
	user    float64 // the part of it outside of system calls
	redis   float64 // CPU of Redis for a published message, in µs
	last    float64 // ms until the last connection had a message
	p99     float64 // ms; of the slowest client process
	missing int
}

// turn measures servers of one kind.
func (s settings) turn(ctx context.Context, programs programs, kind string) (f figures, err error) {
	redis, err := process.StartRedis(ctx)
	if err != nil {
		return f, err
	}
	defer redis.Stop()
	var servers []*process.Process
	for range s.servers {
		p, err := process.Start(ctx, programs.node, "-kind", kind, "-redis", redis.Addr)
		if err != nil {
			return f, err
		}
		defer p.Stop()
		servers = append(servers, p)
	}
	clients, err := s.connect(ctx, programs.load, servers)
	defer func() {
		for _, c := range clients {
			c.Stop()
		}
	}()
	if err != nil {
		return f, err
	}
	p := parties{redis, servers, clients}
	f.all, err = p.measure(s.all, func() error { return s.publishToAll(ctx, servers, kind) })
	if err != nil {
		return f, err
	}
	f.rooms, err = p.measure(s.rooms*s.messages, func() error { return s.publishToRooms(ctx, servers, kind) })
	if err != nil {
		return f, err
	}
	for _, p := range servers {
		rss, err := p.RSS()
		if err != nil {
			return f, err
		}
		f.memory += float64(rss) / (1 << 20)
	}
	return f, err
}

// publishToAll has one server publish. The processes of bare publish for their own members.
func (s settings) publishToAll(ctx context.Context, servers []*process.Process, kind string) error {
	if kind != bare {
		servers = servers[:1]
	}
	return eachOf(len(servers), func(i int) error { return publish(ctx, servers[i], 0, 0, s.all, s.pause) })
}

// publishToRooms has each server publish to its part of the rooms, and those of bare to all of them.
func (s settings) publishToRooms(ctx context.Context, servers []*process.Process, kind string) error {
	return eachOf(len(servers), func(i int) error {
		from, to := i*s.rooms/len(servers), (i+1)*s.rooms/len(servers)
		if kind == bare {
			from, to = 0, s.rooms
		}
		return publish(ctx, servers[i], from, to, s.messages, s.every)
	})
}

// connect starts a client process for each server, and returns when all connections have joined.
func (s settings) connect(ctx context.Context, program string, servers []*process.Process) (clients []*process.Clients, err error) {
	for i, p := range servers {
		c, err := process.StartClients(ctx, program, "-mode", "follow", "-addr", p.Addr, "-from", fmt.Sprintf("127.0.0.%d", 2+i),
			"-conns", fmt.Sprint(s.conns), "-first", fmt.Sprint(i*s.conns), "-rooms", fmt.Sprint(s.rooms),
			"-all", fmt.Sprint(s.all), "-messages", fmt.Sprint(s.messages))
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
	}
	for _, c := range clients {
		if err := c.Expect("joined"); err != nil {
			return clients, err
		}
	}
	return clients, nil
}

// parties are the processes of a turn.
type parties struct {
	redis   *process.Process
	servers []*process.Process
	clients []*process.Clients
}

// measure publishes and waits until all clients have counted.
func (p parties) measure(published int, publish func() error) (f phase, err error) {
	results := make([]load.FollowResult, len(p.clients))
	before, err := p.used()
	if err != nil {
		return f, err
	}
	err = errors.Join(publish(), eachOf(len(p.clients), func(i int) error { return p.clients[i].Result(&results[i]) }))
	if err != nil {
		return f, err
	}
	after, err := p.used()
	if err != nil {
		return f, err
	}
	longest := make([]time.Duration, len(results[0].Longest))
	delivered := 0
	for _, r := range results {
		delivered += r.Delivered
		f.missing += r.Missing
		f.p99 = max(f.p99, stats.Millis(r.P99))
		for number, took := range r.Longest {
			longest[number] = max(longest[number], took)
		}
	}
	f.last = stats.Median(longest, stats.Millis)
	f.cpu = stats.Micros(after.servers-before.servers) / float64(delivered)
	f.user = stats.Micros(after.user-before.user) / float64(delivered)
	f.redis = stats.Micros(after.redis-before.redis) / float64(published)
	return f, nil
}

// used is the CPU time so far.
type used struct{ servers, user, redis time.Duration }

func (p parties) used() (u used, err error) {
	for _, s := range p.servers {
		t, err := s.CPUTime()
		if err != nil {
			return u, err
		}
		u.servers += t
		if t, err = s.UserTime(); err != nil {
			return u, err
		}
		u.user += t
	}
	u.redis, err = p.redis.CPUTime()
	return u, err
}

// publish has a server publish, and returns when it has.
func publish(ctx context.Context, p *process.Process, from, to, messages int, every time.Duration) error {
	url := fmt.Sprintf("http://%s/publish?from=%d&to=%d&messages=%d&every=%v", p.Addr, from, to, messages, every)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("a server answers %s: %s", answer.Status, text)
	}
	return err
}

// eachOf calls do for 0 to n-1 at the same time.
func eachOf(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { errs[i] = do(i) })
	}
	wait.Wait()
	return errors.Join(errs...)
}
