package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

// A System is servers on one Redis, networks between them that can fail, and clients
// that use the servers.
type System struct {
	Redis    *redistest.Server
	Servers  []*Server
	ToRedis  *redistest.Proxy // in front of Redis
	ToServer *redistest.Proxy // in front of Servers[0], for some of the clients
	Recorder *Recorder

	t        testing.TB
	journals []string
	targets  []Target
	stop     func()
}

// Start starts a system with a number of servers and of clients.
func Start(t testing.TB, servers, clients int) *System {
	t.Helper()
	s := &System{t: t, Redis: redistest.Start(t), Recorder: NewRecorder()}
	s.ToRedis = redistest.StartProxy(t, s.Redis.Addr)
	dir := t.TempDir()
	for i := range servers {
		name := fmt.Sprint("server", i)
		s.journals = append(s.journals, filepath.Join(dir, name))
		server := StartServer(t, Config{
			Redis: "redis://" + s.ToRedis.Addr, Journal: s.journals[i],
			Gate: GateConfig{Instance: name, MaxPerUser: 5},
		})
		s.Servers = append(s.Servers, server)
		s.targets = append(s.targets, Target{name, server.Config.Addr})
	}
	s.ToServer = redistest.StartProxy(t, s.Servers[0].Config.Addr)
	s.targets = append(s.targets, Target{"server0", s.ToServer.Addr})
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() { Client(ctx, s.Recorder, s.targets) })
	}
	s.stop = sync.OnceFunc(func() { cancel(); wait.Wait() })
	t.Cleanup(func() { s.ToRedis.Mend(); s.ToServer.Mend(); s.stop() })
	return s
}

// Finish stops the clients, shuts down the servers, and returns the history.
func (s *System) Finish() *History {
	s.t.Helper()
	s.stop()
	for _, server := range s.Servers {
		if err := server.Terminate(); err != nil {
			s.t.Errorf("a server does not shut down: %v", err)
		}
	}
	h, err := s.Recorder.Finish(s.journals...)
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

// A Nemesis is a kind of fault: it breaks something, repairs it, and describes the fault in
// f. Inflict fills in the instants. A fault that sets Away sets From and To itself.
type Nemesis struct {
	Name string
	Do   func(s *System, f *Fault)
}

// Inflict injects the fault and records it in the history.
func (s *System) Inflict(n Nemesis) {
	f := Fault{Name: n.Name, From: time.Now()}
	n.Do(s, &f)
	if f.To.IsZero() {
		f.To = time.Now()
	}
	s.Recorder.Fault(f)
}

// Nemeses are all kinds of faults.
var Nemeses = []Nemesis{
	{"server-kill", func(s *System, f *Fault) {
		i := rand.N(len(s.Servers))
		s.crash(i, f)
		pause(500 * time.Millisecond)
		s.Servers[i].Run()
	}},
	{"rolling-deploy", func(s *System, f *Fault) {
		for _, server := range s.Servers {
			if err := server.Terminate(); err != nil && f.Failed == nil {
				f.Failed = err
			}
			server.Run()
		}
	}},
	{"redis-stall", func(s *System, f *Fault) {
		s.Redis.Stall()
		f.away(2 * time.Second)
		s.Redis.Resume()
	}},
	{"redis-kill", func(s *System, f *Fault) {
		s.Redis.Kill()
		f.Lost = true
		f.away(2 * time.Second)
		s.Redis.Run()
	}},
	{"redis-cut", func(s *System, f *Fault) {
		s.ToRedis.Cut()
		f.away(2 * time.Second)
		s.ToRedis.Mend()
	}},
	{"redis-half-open", func(s *System, f *Fault) {
		s.ToRedis.Mute()
		f.away(2 * time.Second)
		s.ToRedis.Mend()
	}},
	{"redis-connections-lost", func(s *System, f *Fault) {
		s.ToRedis.Lose()
		pause(time.Second)
		s.ToRedis.Mend()
	}},
	{"clients-cut", func(s *System, f *Fault) {
		s.ToServer.Cut()
		pause(500 * time.Millisecond)
		s.ToServer.Mend()
	}},
	{"clients-half-open", func(s *System, f *Fault) {
		s.ToServer.Lose()
		pause(2 * time.Second)
		s.ToServer.Mend()
	}},
}

// Ghosts kills a server, waits until its members are gone, and starts it again.
var Ghosts = Nemesis{"server-kill-members", func(s *System, f *Fault) {
	s.crash(0, f)
	server := s.Servers[1]
	for {
		members, at := s.members(Target{"server1", server.Config.Addr})
		gone := !slices.ContainsFunc(members, func(m string) bool { return slices.Contains(f.Killed, m) })
		if gone || at.Sub(f.From) > 2*processTimeout { // then the check reports it
			break
		}
		pause(100 * time.Millisecond)
	}
	s.Servers[0].Run()
}}

// away records that Redis cannot answer from now on, and waits.
func (f *Fault) away(d time.Duration) {
	f.Away, f.From = true, time.Now()
	pause(d)
	f.To = time.Now()
}

// crash kills a server, and records its connections.
func (s *System) crash(i int, f *Fault) {
	name := s.targets[i].Name
	s.Recorder.do(func(h *History) {
		for id, c := range h.Conns {
			if c.Server == name && c.End == Open {
				f.Killed = append(f.Killed, id)
			}
		}
	})
	s.Servers[i].Kill()
	f.From = time.Now()
}

// members returns the members of the presence topic by one server, and the instant of the
// answer.
func (s *System) members(target Target) (members []string, at time.Time) {
	s.t.Helper()
	poll.Until(s.t, target.Name+" lists the members of a topic", func() bool {
		c, err := open(context.Background(), s.Recorder, target)
		if err != nil {
			return false
		}
		at = time.Now()
		answered := c.send("members", func(string) any { return Topic{presenceTopic} }) && c.awaitFewer(1)
		c.end(Closed)
		_ = c.ws.Close(1000, "")
		<-c.ended
		if answered {
			c.rec.do(func(*History) { members = c.members })
		}
		return answered
	})
	return members, at
}
