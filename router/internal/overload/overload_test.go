package overload_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/router/internal/overload"
)

const target = 20 * time.Millisecond

// mixed is a load of three levels, as a multiple of what the server can carry.
func mixed(load float64) []stream {
	return []stream{
		{level: 6, users: 50, rate: 100 * load},
		{level: 3, users: 500, rate: 500 * load},
		{level: 0, users: 100, rate: 400 * load},
	}
}

func completed(streams []counted) (n int) {
	for _, c := range streams {
		n += c.completed
	}
	return n
}

// With three times as much as it can carry, a server completes at least 85 % of what it completes at once as much, and
// what is most important first. The same server without shedding answers nearly all too late.
func TestThreeTimesTheLoad(t *testing.T) {
	const lasts = 5 * time.Second
	one := newServer(overload.New(target)).run(t, lasts, mixed(1)...)
	three := newServer(overload.New(target)).run(t, lasts, mixed(3)...)
	without := newServer(nil).run(t, lasts, mixed(3)...)
	t.Logf("1 ×: %v; 3 ×: %v; 3 × without shedding: %v", one, three, without)
	if completed(three)*100 < completed(one)*85 {
		t.Errorf("%d messages are completed at three times the load, %d at once the load; want 85 %%", completed(three), completed(one))
	}
	if s := three[0].share(); s < 0.97 {
		t.Errorf("%.2f of the highest level is completed, want nearly all: it fits", s)
	}
	if !(three[0].share() > three[1].share() && three[1].share() > three[2].share()) {
		t.Errorf("the shares that are completed are not in the order of the levels: %v", three)
	}
	if completed(without)*2 > completed(one) {
		t.Errorf("without shedding %d messages are completed, so this test shows nothing", completed(without))
	}
}

// Refusing costs something, too: ten times the load leaves less. What is left goes to the highest level.
func TestTenTimesTheLoad(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = time.Second
	got := s.run(t, 4*time.Second, mixed(10)...)
	t.Log(got)
	if got[0].share() < 0.6 {
		t.Errorf("%.2f of the highest level is completed: %v", got[0].share(), got)
	}
	if others := got[1].completed + got[2].completed; others*5 > got[0].completed {
		t.Errorf("%d messages of lower levels are completed, and %d of the highest, of which not all are", others, got[0].completed)
	}
}

func TestNothingIsRefusedThatFits(t *testing.T) {
	s := newServer(overload.New(target))
	for i, c := range s.run(t, 5*time.Second, mixed(0.8)...) {
		if c.refused > 0 {
			t.Errorf("%d messages of stream %d are refused at 0.8 of the load", c.refused, i)
		}
	}
}

// A user that sends forty times as much as each other one of its level takes nothing from them.
func TestUsersHaveEqualShares(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 2 * time.Second
	got := s.run(t, 7*time.Second, stream{level: 3, users: 50, rate: 500}, stream{level: 3, users: 1, rate: 2000})
	t.Log(got)
	if got[0].share() < 0.9 {
		t.Errorf("%.2f of what the others send is completed, want nearly all", got[0].share())
	}
	if got[1].completed*100 < 60*(5*1000-got[0].completed) {
		t.Errorf("%d messages of the flood are completed; the others leave %d", got[1].completed, 5*1000-got[0].completed)
	}
}

// Of users that all send the same, none is left out.
func TestNoUserStarves(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 2 * time.Second
	got := s.run(t, 8*time.Second, stream{level: 3, users: 60, rate: 3000})
	mean := got[0].completed / 60
	for user := range 60 {
		if n := s.perUser[0][user]; n < mean/2 || n > mean*2 {
			t.Errorf("%d messages of user %d are completed, %d on average", n, user, mean)
		}
	}
}

func TestEndsWithTheLoad(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 6 * time.Second
	got := s.run(t, 9*time.Second, stream{level: 3, users: 100, rate: 500}, stream{level: 3, users: 100, rate: 2500, from: time.Second, to: 4 * time.Second})
	if s.refusing == 0 {
		t.Error("nothing was refused during the peak")
	}
	if got[0].refused > 0 || got[0].share() < 0.99 || s.control.Counting() {
		t.Errorf("two seconds after the peak: %v; counting: %v", got[0], s.control.Counting())
	}
}

// When handling takes twice as long from one moment to the next, the limit follows.
func TestFollowsWhatTheServerCanDo(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 3 * time.Second
	s.handle = func(at time.Duration) time.Duration {
		if at > time.Second {
			return 4 * time.Millisecond
		}
		return 2 * time.Millisecond
	}
	got := s.run(t, 7*time.Second, mixed(0.9)...)
	t.Log(got)
	if n := completed(got); n < 4*500*85/100 {
		t.Errorf("%d messages are completed in 4 s, of 2000 that are possible", n)
	}
	if got[0].share() < 0.97 {
		t.Errorf("%.2f of the highest level is completed", got[0].share())
	}
}

// Nine tenths of what the server can carry come all the time. What made it overloaded ends, and ten
// seconds later everything is accepted again.
func TestAcceptsTheFullLoadAgain(t *testing.T) {
	const from, to = time.Second, 4 * time.Second
	within := func(at time.Duration) bool { return at > from && at < to }
	for name, cause := range map[string]func(*server){
		"slow handlers": func(s *server) {
			s.handle = func(at time.Duration) time.Duration {
				if within(at) {
					return 10 * time.Millisecond
				}
				return 2 * time.Millisecond
			}
		},
		"something busy": func(s *server) {
			s.seen = func(seen *overload.Seen) { seen.Busy = within(seen.At) }
		},
		"memory": func(s *server) {
			s.seen = func(seen *overload.Seen) {
				if within(seen.At) {
					seen.Memory = 0.99
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(overload.New(target))
			s.warm = to + 10*time.Second
			cause(s)
			got := s.run(t, s.warm+2*time.Second, mixed(0.9)...)
			if s.refusing == 0 {
				t.Error("nothing was refused before, so this test shows nothing")
			}
			for i, c := range got {
				if c.refused > 0 || c.share() < 0.98 {
					t.Errorf("10 s after the cause has ended, of stream %d: %+v", i, c)
				}
			}
			if s.control.Counting() {
				t.Error("the overload is not over")
			}
		})
	}
}

// Clients that come again when they are reported to do not keep the server down.
func TestRetries(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 6 * time.Second
	got := s.run(t, 12*time.Second,
		stream{level: 3, users: 100, rate: 700, retries: true},
		stream{level: 3, users: 100, rate: 1500, from: time.Second, to: 3 * time.Second, retries: true})
	t.Log(got)
	if got[0].completed < got[0].sent*85/100 {
		t.Errorf("of what is sent after the peak %v", got[0])
	}
	if s.control.Counting() {
		t.Error("9 s after the peak it is not over")
	}
}

// What else is busy is relieved, and the service goes on whatever the signal is.
func TestBusy(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 3 * time.Second
	s.seen = func(seen *overload.Seen) { seen.Busy = seen.At > time.Second }
	got := s.run(t, 8*time.Second, mixed(0.5)...)
	t.Log(got)
	if n := completed(got); n < 5*45 || n > 5*100 {
		t.Errorf("%d messages are completed in 5 s, want about a tenth of 2500", n)
	}
	if got[0].share() < 2*got[1].share() {
		t.Errorf("the highest level is not preferred: %v", got)
	}
}

// A signal that comes and goes with the load, such as callers that wait for a connection to a database.
func TestBusyFromSomeLoadOn(t *testing.T) {
	s := newServer(overload.New(target))
	s.warm = 3 * time.Second
	s.refuse = cost(0)
	var handled atomic.Int64
	s.handle = func(time.Duration) time.Duration { handled.Add(1); return time.Millisecond }
	last := int64(0)
	s.seen = func(seen *overload.Seen) {
		n := handled.Load()
		seen.Busy, last = n-last > 40, n // in 100 ms
	}
	got := s.run(t, 7*time.Second, stream{level: 3, users: 100, rate: 1000})
	t.Log(got)
	if n := got[0].completed; n < 4*280 || n > 4*450 {
		t.Errorf("%d messages are completed in a second; want about 400", n/4)
	}
}

func TestMemory(t *testing.T) {
	for _, tc := range []struct{ memory, least, most float64 }{
		{0.9, 1, 1}, {0.95, 0.4, 0.6}, {1, 0.05, 0.15}, {1.5, 0.05, 0.15},
	} {
		s := newServer(overload.New(target))
		s.warm = time.Second
		s.seen = func(seen *overload.Seen) { seen.Memory = tc.memory }
		got := s.run(t, 4*time.Second, stream{level: 3, users: 100, rate: 500})
		if share := got[0].share(); share < tc.least-0.01 || share > tc.most {
			t.Errorf("%.2f of the messages are completed with %.2f of the memory in use, want %.2f to %.2f", share, tc.memory, tc.least, tc.most)
		}
	}
}

// The wait grows with the overload, and differs from message to message.
func TestRetryAfter(t *testing.T) {
	c := overload.New(target)
	over := func(at time.Duration) { c.Look(overload.Seen{At: at, Wait: time.Second}) }
	over(time.Second)
	for _, tc := range []struct{ lasted, least, most time.Duration }{
		{0, 500 * time.Millisecond, 1500 * time.Millisecond},
		{10 * time.Second, 5 * time.Second, 15 * time.Second},
		{time.Hour, 15 * time.Second, 45 * time.Second},
	} {
		waits := make(map[time.Duration]bool)
		for range 100 {
			wait := c.RetryAfter(time.Second + tc.lasted)
			waits[wait] = true
			if wait < tc.least || wait > tc.most {
				t.Errorf("after %v: %v, want %v to %v", tc.lasted, wait, tc.least, tc.most)
			}
		}
		if len(waits) < 50 {
			t.Errorf("after %v: only %d different waits of 100", tc.lasted, len(waits))
		}
	}
}

// Many goroutines ask while another one looks.
func TestConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overload.New(target)
		begun := time.Now()
		for subject := range uint64(8) {
			go func() {
				for time.Since(begun) < 3*time.Second {
					time.Sleep(time.Millisecond)
					if !c.Counting() || c.Admit(int(subject)%overload.Levels, subject, time.Since(begun)) {
						c.Done()
					}
				}
			}()
		}
		for time.Since(begun) < 4*time.Second {
			time.Sleep(overload.Every)
			c.Look(overload.Seen{At: time.Since(begun), Wait: 3 * target})
		}
		if !c.Refusing() || c.Refused(0) == 0 {
			t.Error("nothing is refused")
		}
	})
}
