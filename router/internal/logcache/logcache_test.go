package logcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// testLog is a log of messages from first to last. It counts how often each was read.
type testLog struct {
	mu          sync.Mutex
	first, last uint64
	reads       map[uint64]int
	calls       int
	fail        error
	size        func(offset uint64) int
	total       atomic.Int64
}

func (l *testLog) Read(o pubsub.ReadOptions) (page pubsub.Page, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	page.Head = position(l.last)
	if l.fail != nil {
		return page, l.fail
	}
	if o.From.Offset+1 < l.first {
		page.Lost = "trimmed"
		return page, nil
	}
	from, to := o.From.Offset+1, min(l.last, o.From.Offset+uint64(o.Messages))
	if o.Backwards {
		from, to = max(l.first, o.From.Offset-min(o.From.Offset, uint64(o.Messages))), o.From.Offset-1
	}
	for n := from; n <= to; n++ {
		l.reads[n]++
		page.Messages = append(page.Messages, pubsub.Message{
			Frame: []byte(fmt.Sprint(n)), Position: position(n), Previous: position(n - 1).Tag,
		})
	}
	return page, nil
}

// changing is a log of one message, which changes while it is read.
type changing struct {
	text    string
	reading func()
}

func (l *changing) Read(o pubsub.ReadOptions) (page pubsub.Page, err error) {
	page.Head = position(1)
	if o.From.Offset == 0 {
		page.Messages = []pubsub.Message{{Frame: []byte(l.text), Position: position(1)}}
	}
	l.reading()
	return page, nil
}

// After Drop nothing is returned to later clients that was read before, also where the reading was under way.
func TestDropWhileThePageIsRead(t *testing.T) {
	l := &changing{text: "before", reading: func() {}}
	var total atomic.Int64
	var c Cache
	c.Init(Source{Read: l.Read, Overhead: 5, Total: &total, Frames: func(messages []pubsub.Message, add func([]byte)) {
		for _, m := range messages {
			add(m.Frame)
		}
	}})
	read := func(want string) {
		t.Helper()
		list, lost, err := c.After(t.Context(), pubsub.Position{Epoch: position(1).Epoch})
		if err != nil || lost != "" || len(list) != 1 || string(list[0].Frame) != want {
			t.Errorf("the cache has %v, %q, %v, want %q", list, lost, err, want)
		}
	}
	l.reading = func() {
		l.text = "after"
		c.Drop()
	}
	read("before")
	l.reading = func() {}
	read("after")
	l.text = "later"
	read("after")
	c.Drop()
	read("later")
	if c.Drop(); total.Load() != 0 {
		t.Errorf("%d bytes are left", total.Load())
	}
}

// frame is what clients get of a message: every tenth one is no event.
func (l *testLog) frame(n uint64) []byte {
	if n%10 == 0 {
		return nil
	}
	return slices.Grow([]byte(fmt.Sprint(n, " ")), l.size(n))[:l.size(n)+5]
}

func (l *testLog) Frames(messages []pubsub.Message, add func([]byte)) {
	for _, m := range messages {
		add(l.frame(m.Position.Offset))
	}
}

func newTestLog(first, last uint64) (*testLog, *Cache) {
	l := &testLog{first: first, last: last, reads: map[uint64]int{}, size: func(uint64) int { return 100 }}
	c := new(Cache)
	c.Init(Source{Read: l.Read, Frames: l.Frames, Overhead: 200, Total: &l.total})
	return l, c
}

// Clients from any positions get all messages after theirs, in order; the log is read at most twice for all of them.
func TestClientsShareWhatIsRead(t *testing.T) {
	t.Parallel()
	const first, last = 300, 1500
	for range 20 {
		l, c := newTestLog(first, last)
		var clients sync.WaitGroup
		for range 50 {
			from := first - 1 + rand.Uint64N(last-first+2)
			clients.Go(func() {
				c.Acquire()
				defer c.Release()
				for at := from; at < last; {
					list, lost, err := c.After(t.Context(), position(at))
					if lost != "" || err != nil || len(list) == 0 {
						t.Errorf("after %d: %d messages, %q, %v", at, len(list), lost, err)
						return
					}
					for _, m := range list {
						if at++; m.At != position(at) || string(m.Frame) != string(l.frame(at)) {
							t.Errorf("after %d came %v", at-1, m.At)
							return
						}
					}
				}
				if list, lost, err := c.After(t.Context(), position(last)); len(list) > 0 || lost != "" || err != nil {
					t.Errorf("after the end: %d messages, %q, %v", len(list), lost, err)
				}
			})
		}
		clients.Wait()
		for n, times := range l.reads {
			if times > 2 {
				t.Errorf("message %d was read %d times", n, times)
			}
		}
	}
}

// Clients that come one after the other, each from a position before the last one's, share what is read as well.
func TestClientsInTheOppositeOrderShareWhatIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // no page goes because the machine is busy
		const first, last = 300, 1500
		l, c := newTestLog(first, last)
		for from := uint64(last); from >= first-1; from -= 11 {
			c.Acquire()
			for at := from; at < last; {
				list, lost, err := c.After(t.Context(), position(at))
				if lost != "" || err != nil || len(list) == 0 {
					t.Fatalf("after %d: %d messages, %q, %v", at, len(list), lost, err)
				}
				at += uint64(len(list))
			}
			c.Release()
		}
		for n, times := range l.reads {
			if times > 2 {
				t.Errorf("message %d was read %d times", n, times)
			}
		}
	})
}

// What is not in the log any more is said, and a read that fails is an error for those that wait, and no others.
func TestLossesAndFailuresAreTold(t *testing.T) {
	t.Parallel()
	l, c := newTestLog(300, 400)
	if list, lost, err := c.After(t.Context(), position(100)); lost != "trimmed" || len(list) > 0 || err != nil {
		t.Errorf("%d messages, %q, %v", len(list), lost, err)
	}
	l.fail = errors.New("away")
	if _, _, err := c.After(t.Context(), position(300)); err != l.fail {
		t.Error(err)
	}
	l.fail = nil
	if list, _, err := c.After(t.Context(), position(300)); err != nil || len(list) == 0 {
		t.Errorf("%d messages, %v", len(list), err)
	}
	c.Drop()
	if n := l.total.Load(); n != 0 {
		t.Errorf("%d bytes are counted, and none is kept", n)
	}
}

// A broker whose page has a gap, or another beginning, is not believed.
func TestPagesWithGapsAreRefused(t *testing.T) {
	t.Parallel()
	l, c := newTestLog(1, 100)
	c.source.Read = func(o pubsub.ReadOptions) (pubsub.Page, error) {
		page, err := l.Read(o)
		page.Messages = append(page.Messages[:3], page.Messages[4:]...)
		return page, err
	}
	if _, _, err := c.After(t.Context(), position(5)); err != ErrPage {
		t.Error(err)
	}
}

// The bytes of a topic are bounded, whatever the messages have; and so are those of all topics.
func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]int64{"of a topic": 0, "of all": mostInAll} {
		t.Run(name, func(t *testing.T) {
			l, c := newTestLog(1, 3000)
			l.size = func(uint64) int { return 20 << 10 }
			l.total.Add(other)
			for at := uint64(0); at < 3000; {
				list, _, err := c.After(t.Context(), position(at))
				if err != nil || len(list) == 0 {
					t.Fatal(len(list), err)
				}
				at = list[len(list)-1].At.Offset
				if got := l.total.Load() - other; got > mostBytes || other > 0 && got > 0 {
					t.Fatalf("%d bytes are kept", got)
				}
			}
		})
	}
}

// Pages are kept for two seconds after the last client.
func TestPagesGoAfterTheLastClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, c := newTestLog(1, 100)
		kept := func() bool { synctest.Wait(); return l.total.Load() > 0 }
		c.Acquire()
		if _, _, err := c.After(t.Context(), position(0)); err != nil {
			t.Fatal(err)
		}
		if time.Sleep(time.Hour); !kept() {
			t.Error("pages go while a client resumes")
		}
		c.Release()
		time.Sleep(time.Second)
		c.Acquire() // another
		c.Release()
		if time.Sleep(1500 * time.Millisecond); !kept() {
			t.Error("pages go before two seconds have passed since the last client")
		}
		if time.Sleep(time.Second); kept() {
			t.Error("pages are kept for ever")
		}
	})
}
