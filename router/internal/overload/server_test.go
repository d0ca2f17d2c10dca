package overload_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/router/internal/overload"
)

// stream is messages of a level that come from a number of users at random times, whatever the server
// does with them.
type stream struct {
	level, users int
	rate         float64 // messages in a second
	from, to     time.Duration
	retries      bool // each refused message is sent again when the server says
}

// counted is what became of a stream's messages. A message is completed only if its answer comes
// before its client has given up.
type counted struct{ sent, completed, refused int }

func (c counted) share() float64 { return float64(c.completed) / float64(max(1, c.sent)) }

// server is a model of one: CPUs that take what has come from one queue, in order. A message costs a
// CPU some time to handle, and little to refuse.
type server struct {
	cpus           int
	handle, refuse func(at time.Duration) time.Duration
	patience       time.Duration // of clients
	control        *overload.Controller
	seen           func(*overload.Seen) // changes what is seen; nil: nothing
	warm           time.Duration        // messages that are sent before are not counted

	start time.Time
	queue chan func()
	over  chan struct{} // closed at the end

	mu                sync.Mutex
	shortest, probing time.Duration
	streams           []counted
	perUser           []map[int]int // completed
	refusing          time.Duration // when messages were last refused
}

func cost(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

// newServer is a server that handles 1000 messages a second.
func newServer(control *overload.Controller) *server {
	return &server{
		cpus: 2, handle: cost(2 * time.Millisecond), refuse: cost(50 * time.Microsecond),
		patience: time.Second, control: control,
	}
}

func (s *server) now() time.Duration { return time.Since(s.start) }

// run lets streams come for some time, and returns what became of each.
func (s *server) run(t *testing.T, lasts time.Duration, streams ...stream) []counted {
	synctest.Test(t, func(t *testing.T) {
		s.start, s.queue, s.over = time.Now(), make(chan func(), 1<<20), make(chan struct{})
		s.shortest, s.probing = time.Hour, -1
		s.streams = make([]counted, len(streams))
		s.perUser = make([]map[int]int, len(streams))
		var all sync.WaitGroup
		for range s.cpus {
			all.Go(s.work)
		}
		if s.control != nil {
			all.Go(s.look)
			all.Go(s.probe)
		}
		for i, st := range streams {
			s.perUser[i] = make(map[int]int)
			all.Go(func() { s.come(i, st) })
		}
		time.Sleep(lasts)
		close(s.over)
		all.Wait()
	})
	return s.streams
}

// sleep returns false at the end.
func (s *server) sleep(d time.Duration) bool {
	select {
	case <-s.over:
		return false
	case <-time.After(d):
		return true
	}
}

// work is a CPU.
func (s *server) work() {
	for {
		select {
		case <-s.over:
			return
		case work := <-s.queue:
			work()
		}
	}
}

// probe measures how long work waits, as the router does.
func (s *server) probe() {
	for s.sleep(10 * time.Millisecond) {
		at, waited := s.now(), make(chan struct{})
		s.setProbing(at)
		s.queue <- func() { close(waited) }
		select {
		case <-s.over:
			return
		case <-waited:
			s.setProbing(-1)
			s.mu.Lock()
			s.shortest = min(s.shortest, s.now()-at)
			s.mu.Unlock()
		}
	}
}

func (s *server) setProbing(at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = at
}

// look passes on what is seen.
func (s *server) look() {
	for s.sleep(overload.Every) {
		s.mu.Lock()
		seen := overload.Seen{At: s.now(), Wait: s.shortest}
		if s.shortest == time.Hour {
			seen.Wait = s.now() - s.probing
		}
		s.shortest = time.Hour
		s.mu.Unlock()
		if s.seen != nil {
			s.seen(&seen)
		}
		s.control.Look(seen)
		if s.control.Refusing() {
			s.refusing = s.now()
		}
	}
}

func (s *server) come(i int, st stream) {
	random := rand.New(rand.NewPCG(uint64(i), 7))
	if !s.sleep(st.from) {
		return
	}
	for s.sleep(time.Duration(random.ExpFloat64() / st.rate * float64(time.Second))) {
		if st.to > 0 && s.now() > st.to {
			return
		}
		s.count(i, s.now(), func(c *counted) { c.sent++ })
		s.send(i, st, random.IntN(max(1, st.users)))
	}
}

// count changes the figures of a stream, for a message that was sent at a time.
func (s *server) count(i int, sent time.Duration, change func(*counted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent >= s.warm {
		change(&s.streams[i])
	}
}

// send puts a message into the queue.
func (s *server) send(i int, st stream, user int) {
	came := s.now()
	s.queue <- func() {
		at := s.now()
		counting := s.control != nil && s.control.Counting()
		if counting && !s.control.Admit(st.level, uint64(i)<<32|uint64(user), at) {
			s.count(i, came, func(c *counted) { c.refused++ })
			if st.retries {
				wait := s.control.RetryAfter(at)
				time.AfterFunc(wait, func() { s.send(i, st, user) })
			}
			time.Sleep(s.refuse(at))
			return
		}
		time.Sleep(s.handle(at))
		if counting {
			s.control.Done()
		}
		if s.now()-came <= s.patience {
			s.count(i, came, func(c *counted) { c.completed++; s.perUser[i][user]++ })
		}
	}
}
