package limitfeed

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/wire"
)

// client keeps what it is sent.
type client struct {
	closing atomic.Bool
	queued  atomic.Int64

	mu     sync.Mutex
	frames []message
	times  []time.Time
}

type message struct {
	Type    string
	Payload struct {
		Limits []struct {
			Name      string
			Types     map[string]*int64
			Limit     int64
			Remaining float64
			FullInMs  int64
		}
		Seen map[string]int64
	}
}

func (c *client) Closing() bool { return c.closing.Load() }
func (c *client) Queued() int   { return int(c.queued.Load()) }

func (c *client) SendNow(b *frame.Buffer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m message
	if err := json.Unmarshal(b.Bytes()[wire.HeaderRoom:], &m); err != nil || m.Type != "$ws:limits" {
		panic(fmt.Sprintf("%s: %v", b.Bytes(), err))
	}
	c.frames, c.times = append(c.frames, m), append(c.times, time.Now())
	return nil
}

// told returns the frames that have come, and when.
func (c *client) told() ([]message, []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames, c.times
}

func (c *client) count() int {
	frames, _ := c.told()
	return len(frames)
}

// start begins a feed of types, and returns its answer.
func start(c *client, types ...string) (*Feed, message) {
	f := New(c, types, time.Now())
	return f, answer(f)
}

func answer(f *Feed) (m message) {
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"answer","payload":`)
	f.Start(b)
	if err := json.Unmarshal(b.Bytes()[wire.HeaderRoom:], &m); err != nil {
		panic(err)
	}
	return m
}

var source = new(int)

// bucket is a limit of ten, of which one comes back each second.
func bucket(typ, key string, left float64) inbound.Limit {
	return inbound.Limit{
		Source: source, Name: "ten", Type: typ, Key: []byte(key), Cost: 1, Ceiling: 10, Remaining: left, Refill: 1, Per: time.Second,
		FullAfter: time.Duration((10 - left) * float64(time.Second)),
	}
}

// A client is told once what is left when it asks, and of what changes, at most four times a second.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := new(client)
		f := New(c, []string{"a", "b"}, time.Now())
		f.Report(bucket("a", "k", 10))
		time.Sleep(time.Minute)
		if c.count() != 0 {
			t.Error("something is sent before the answer")
		}
		f.Report(bucket("a", "k", 10))
		if m := answer(f); len(m.Payload.Limits) != 1 || m.Payload.Limits[0].Remaining != 10 || len(m.Payload.Seen) != 2 {
			t.Errorf("the answer is %+v", m)
		}
		began := time.Now()
		for n := range 100 { // one in 10 ms
			f.Report(bucket("a", "k", 10-float64(n)/100))
			f.Passed([]byte("a"), false)
			f.Passed([]byte("other"), false)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		frames, times := c.told()
		if n := len(frames); n < 3 || n > 6 || times[0].Sub(began) > 50*time.Millisecond {
			t.Fatalf("%d frames came within a second: %v", n, times)
		}
		for i := range times[1:] {
			if pause := times[i+1].Sub(times[i]); pause < 250*time.Millisecond {
				t.Errorf("frames came %v apart", pause)
			}
		}
		if seen := frames[len(frames)-1].Payload.Seen; seen["a"] != 100 || seen["b"] != 0 {
			t.Errorf("seen: %v", seen)
		}
	})
}

// A client whose messages are refused is told seldom, one that floods is not told, nor is one that does not read, that
// is closing, or whose feed has ended.
func TestWhenNothingIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := new(client)
		f, _ := start(c, "a")
		refuse := func(each time.Duration, n int) (frames int) {
			before := c.count()
			for range n {
				f.Passed([]byte("a"), true)
				time.Sleep(each)
			}
			return c.count() - before
		}
		if n := refuse(100*time.Millisecond, 100); n < 9 || n > 11 {
			t.Errorf("%d frames came within 10 s of refusals", n)
		}
		time.Sleep(time.Minute)
		if n := refuse(time.Millisecond, 10_000); n > 1 {
			t.Errorf("%d frames came within a flood of 10 s", n)
		}
		time.Sleep(time.Minute)
		c.queued.Store(1 << 20)
		if n := refuse(time.Second, 20); n != 0 {
			t.Errorf("%d frames came while others waited", n)
		}
		c.queued.Store(0)
		time.Sleep(time.Minute)
		if n := refuse(time.Second, 1); n == 0 {
			t.Error("nothing came when all had been read")
		}
		time.Sleep(time.Minute)
		before := c.count()
		f.Passed([]byte("a"), false)
		f.End()
		time.Sleep(time.Minute)
		f.Passed([]byte("a"), false)
		time.Sleep(time.Minute)
		other, _ := start(c, "a")
		c.closing.Store(true)
		other.Passed([]byte("a"), false)
		time.Sleep(time.Minute)
		if n := c.count() - before; n != 0 {
			t.Errorf("%d frames came after the end", n)
		}
		(*Feed)(nil).End()
	})
}

// What a client is told is never more than is left: it grows no faster than the limit, and is full not before that says
// so.
func TestNeverMoreThanIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := start(new(client), "a")
		f.Report(bucket("a", "k", 2.5))
		began := time.Now()
		for range 100 {
			l := answer(f).Payload.Limits[0]
			elapsed := time.Since(began)
			// Whole tokens have flowed in at whole seconds at the earliest.
			if most := 2.5 + elapsed.Seconds(); l.Remaining > most+1e-9 || l.Remaining > 10 || l.Remaining < min(10, most)-1e-5 {
				t.Errorf("after %v: %v are said to be left", elapsed, l.Remaining)
			}
			if left := 7500*time.Millisecond - elapsed; time.Duration(l.FullInMs)*time.Millisecond < left || l.FullInMs > max(0, left.Milliseconds()+1) {
				t.Errorf("after %v: full in %d ms", elapsed, l.FullInMs)
			}
			time.Sleep(137 * time.Millisecond)
		}
	})
}

// Types that share a state are told as one limit, with their costs; a limit that is hidden from then on is left out, as
// are those of types that were not asked for; and their number is bounded.
func TestLimitsOfTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := start(new(client), "a", "b")
		f.Report(bucket("a", "k", 9))
		two := bucket("b", "k", 7)
		two.Cost = 2
		f.Report(two)
		f.Report(bucket("c", "k", 5))
		limits := answer(f).Payload.Limits
		if len(limits) != 1 || len(limits[0].Types) != 2 || *limits[0].Types["a"] != 1 || *limits[0].Types["b"] != 2 || limits[0].Remaining != 5 {
			t.Errorf("one state is told as %+v", limits)
		}
		two.Hidden = true
		f.Report(two)
		if limits := answer(f).Payload.Limits; len(limits) != 1 || len(limits[0].Types) != 1 {
			t.Errorf("hidden: %+v", limits)
		}
		for range 100 {
			other := bucket("a", "k", 1)
			other.Source = new(int)
			f.Report(other)
		}
		if limits := answer(f).Payload.Limits; len(limits) != maxLimits {
			t.Errorf("%d limits are told", len(limits))
		}
	})
}

// A client may ask again after a second.
func TestHowOftenAClientMayAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var none *Feed
		f, _ := start(new(client))
		if none.Wait(time.Now()) > 0 || none.Reports() != nil || f.Reports() != nil || f.Wait(time.Now()) != time.Second {
			t.Errorf("wait %v", f.Wait(time.Now()))
		}
		time.Sleep(time.Second)
		if wait := f.Wait(time.Now()); wait > 0 {
			t.Errorf("after a second: wait %v", wait)
		}
	})
}
