package batch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/race"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ask struct{ n, answer int }

type batcher = batch.Batcher[ask]

// double is the send of most tests: it answers every item with twice its number.
func double(items []*batch.Item[ask]) {
	for _, it := range items {
		it.Value.answer = 2 * it.Value.n
	}
}

func call(c *batcher, ctx context.Context, n int) (answer int, err error) {
	it := c.Item()
	it.Value = ask{n: n}
	if err := c.Do(ctx, it); err != nil {
		return 0, err
	}
	answer = it.Value.answer
	c.Free(it)
	return answer, nil
}

// gate is a send that blocks until the test opens it. It records the batches.
type gate struct {
	mu      sync.Mutex
	batches [][]int
	open    chan struct{}
}

func (g *gate) send(ctx context.Context, items []*batch.Item[ask]) {
	var numbers []int
	for _, it := range items {
		numbers = append(numbers, it.Value.n)
	}
	g.mu.Lock()
	g.batches = append(g.batches, numbers)
	g.mu.Unlock()
	select {
	case <-g.open:
		double(items)
	case <-ctx.Done():
		for _, it := range items {
			it.Err = ctx.Err()
		}
	}
}

func (g *gate) seen() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprint(g.batches)
}

func newGate(o batch.Options) (*gate, *batcher) {
	g := &gate{open: make(chan struct{})}
	return g, batch.New(g.send, o)
}

func TestSingleCallIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := batch.New(func(_ context.Context, items []*batch.Item[ask]) { double(items) }, batch.Options{})
		if answer, err := call(c, t.Context(), 21); answer != 42 || err != nil {
			t.Errorf("%d, %v", answer, err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("it waited %v", waited)
		}
	})
}

// Calls that come during a single call on its caller's goroutine are sent after it. A call
// whose context may end at any time does not run on its caller's goroutine.
func TestOnCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(batch.Options{Flushes: 1, OnCaller: true})
		bounded, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if answer, err := call(c, bounded, i); answer != 2*i || err != nil {
					t.Errorf("%d: %d, %v", i, answer, err)
				}
			})
			synctest.Wait()
		}
		close(g.open)
		wg.Wait()
		if got := g.seen(); got != "[[0] [1 2]]" {
			t.Error(got)
		}

		_, c = newGate(batch.Options{Flushes: 1, OnCaller: true})
		ending, end := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := call(c, ending, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("a context without a deadline: %v", err)
			}
		})
		synctest.Wait()
		end()
		wg.Wait()

		c = batch.New(func(context.Context, []*batch.Item[ask]) { panic("thirteen") }, batch.Options{OnCaller: true})
		for range 2 {
			if _, err := call(c, context.Background(), 13); err == nil || !strings.Contains(err.Error(), "thirteen") {
				t.Errorf("%v", err)
			}
		}
	})
}

// Calls that arrive while all flushes are busy are sent together in the next ones, in
// order, at most Size at a time.
func TestQueuedCallsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(batch.Options{Flushes: 2, Size: 3})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if answer, err := call(c, t.Context(), i); answer != 2*i || err != nil {
					t.Errorf("%d: %d, %v", i, answer, err)
				}
			})
			synctest.Wait()
		}
		if got := g.seen(); got != "[[0] [1]]" {
			t.Errorf("with two flushes under way: %s", got)
		}
		g.open <- struct{}{}
		synctest.Wait()
		if got := g.seen(); got != "[[0] [1] [2 3 4]]" {
			t.Errorf("after one came back: %s", got)
		}
		for range 2 {
			g.open <- struct{}{}
			synctest.Wait()
		}
		if got := g.seen(); got != "[[0] [1] [2 3 4] [5 6 7] [8 9]]" {
			t.Error(got)
		}
		close(g.open)
		wg.Wait()
	})
}

// A flush leaves an even share of the queued calls to the others.
func TestFlushesShareEvenly(t *testing.T) {
	for _, onCaller := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var back [11]chan struct{} // of the flush that begins with this number
			for i := range back {
				back[i] = make(chan struct{})
			}
			g := &gate{open: make(chan struct{})}
			close(g.open)
			c := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
				g.send(ctx, items)
				<-back[items[0].Value.n]
			}, batch.Options{Flushes: 2, OnCaller: onCaller})
			var wg sync.WaitGroup
			for i := range back {
				wg.Go(func() { call(c, context.Background(), i) })
				synctest.Wait()
			}
			for _, step := range []struct {
				back int
				want string
			}{
				{0, "[[0] [1] [2 3 4 5 6]]"}, // half of the ten that are left
				{1, "[[0] [1] [2 3 4 5 6] [7 8 9 10]]"},
			} {
				close(back[step.back])
				synctest.Wait()
				if got := g.seen(); got != step.want {
					t.Errorf("on its caller %v, after %d came back: %s, not %s", onCaller, step.back, got, step.want)
				}
			}
			close(back[2])
			close(back[7])
			wg.Wait()
		})
	}
}

// Flushes that end at the same time include each other's callers in their share, as these
// are about to call again: no call waits for another round.
func TestFlushesInPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
			time.Sleep(10 * time.Millisecond)
			double(items)
		}, batch.Options{Flushes: 2})
		start, calls := time.Now(), atomic.Int64{}
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for time.Since(start) < time.Second {
					call(c, context.Background(), i)
					calls.Add(1)
				}
			})
		}
		wg.Wait()
		least := int64(64 * 90)
		if race.Enabled { // which shuffles the scheduler's order
			least = 64 * 70
		}
		if n := calls.Load(); n < least {
			t.Errorf("%d calls were answered in a hundred rounds of 64", n)
		}
	})
}

// While one flush hangs, the others send its share too.
func TestFlushesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flushes = 4
		release := make(chan struct{})
		c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
			if items[0].Value.n < flushes-1 {
				<-release
			}
			time.Sleep(20 * time.Millisecond)
			double(items)
		}, batch.Options{Flushes: flushes})
		var wg sync.WaitGroup
		for i := range flushes {
			wg.Go(func() { call(c, context.Background(), i) })
			synctest.Wait()
		}
		for i := range 64 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if _, err := call(c, ctx, flushes+i); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		close(release)
		wg.Wait()
	})
}

// If enough calls are queued, the next flush does not wait for the answered callers to call
// again.
func TestFullShareIsSentAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	got := ""
	for tries := 0; tries < 5 && got != "sent"; tries++ { // the scheduler may interrupt the flush and run a caller
		got = afterAFlush(t)
	}
	if got != "sent" {
		t.Errorf("a caller was %s before the next flush was sent, for which ten calls waited", got)
	}
}

// afterAFlush returns what comes first after a flush: the next one, or that a caller has its answer.
func afterAFlush(t *testing.T) (got string) {
	synctest.Test(t, func(t *testing.T) {
		back := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		events := make(chan string, 100)
		c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
			events <- "sent"
			if first := items[0].Value.n; first < len(back) {
				<-back[first]
			}
		}, batch.Options{Flushes: 2})
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				call(c, context.Background(), i)
				events <- "answered"
			})
			synctest.Wait()
		}
		<-events
		<-events
		close(back[0])
		got = <-events
		close(back[1])
		wg.Wait()
	})
	return got
}

// Callers that call again as soon as they are answered share the next flush.
func TestAnsweredCallersShareTheNextFlush(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var flushes, calls atomic.Int64
	c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
		flushes.Add(1)
		calls.Add(int64(len(items)))
		double(items)
	}, batch.Options{Flushes: 1})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for n := range 100 {
				if answer, err := call(c, context.Background(), n); err != nil || answer != 2*n {
					t.Errorf("%d: %d, %v", n, answer, err)
				}
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 3200 || flushes.Load() > 200 { // the scheduler is shuffled under the race detector
		t.Errorf("%d calls in %d flushes", n, flushes.Load())
	}
}

func TestACallerLeavesWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(batch.Options{Flushes: 1})
		background := make(chan error, 1)
		go func() { _, err := call(c, context.Background(), 0); background <- err }()
		synctest.Wait()

		cause := errors.New("the client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := make(chan error, 1)
		go func() { _, err := call(c, ctx, 1); waiting <- err }()
		synctest.Wait()
		cancel(cause)
		if err := <-waiting; !errors.Is(err, batch.ErrNotSent) || !errors.Is(err, cause) {
			t.Errorf("while waiting: %v", err)
		}
		if _, err := call(c, ctx, 2); !errors.Is(err, batch.ErrNotSent) {
			t.Errorf("with a context that had ended: %v", err)
		}
		close(g.open)
		if err := <-background; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := g.seen(); got != "[[0]]" {
			t.Errorf("%s: a withdrawn call was sent", got)
		}
	})
}

// ending is a context whose Err is set before its Done is closed.
type ending struct {
	context.Context
	done chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.done }
func (e ending) Err() error            { return e.Context.Err() }

func TestCallWithEndedContextIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(batch.Options{Flushes: 1})
		var wg sync.WaitGroup
		wg.Go(func() { call(c, context.Background(), 0) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		e := ending{ctx, make(chan struct{})}
		wg.Go(func() {
			if _, err := call(c, e, 1); !errors.Is(err, batch.ErrNotSent) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		close(g.open)
		synctest.Wait()
		for range 3 {
			if _, err := call(c, t.Context(), 2); err != nil {
				t.Error(err)
			}
		}
		close(e.done)
		wg.Wait()
		if got := g.seen(); got != "[[0] [2] [2] [2]]" {
			t.Error(got)
		}
	})
}

// A caller can also leave while its item is being sent. The flush continues for the other
// callers, and is cancelled when all have left.
func TestFlushContinuesForRemainingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(batch.Options{Flushes: 1})
		lone, cancelLone := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := call(c, lone, 0); !errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrNotSent) {
				t.Errorf("sent, then left: %v", err)
			}
		})
		synctest.Wait()
		leaving, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := call(c, leaving, 1); !errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrNotSent) {
				t.Errorf("sent, then left: %v", err)
			}
		})
		synctest.Wait()
		staying, leaveLast := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := call(c, staying, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("the last to leave: %v", err)
			}
		})
		synctest.Wait()
		cancelLone() // frees the flush for the other two
		synctest.Wait()
		if got := g.seen(); got != "[[0] [1 2]]" {
			t.Fatal(got)
		}
		leave()
		synctest.Wait()
		var fifth error
		answered := make(chan struct{})
		go func() { _, fifth = call(c, context.Background(), 3); close(answered) }()
		synctest.Wait()
		if got := g.seen(); got != "[[0] [1 2]]" {
			t.Errorf("%s: a flush was cancelled though one caller stayed", got)
		}
		leaveLast()
		synctest.Wait()
		if got := g.seen(); got != "[[0] [1 2] [3]]" {
			t.Errorf("%s: a flush that all callers have left is not cancelled", got)
		}
		close(g.open)
		<-answered
		if fifth != nil {
			t.Error(fifth)
		}
		wg.Wait()
	})
}

// A batch has the latest deadline of its callers, and none if a caller has none.
func TestDeadlines(t *testing.T) {
	for _, c := range []struct {
		timeouts []time.Duration
		want     time.Duration
	}{
		{[]time.Duration{time.Second}, time.Second},
		{[]time.Duration{time.Second, 3 * time.Second, 2 * time.Second}, 3 * time.Second},
		{[]time.Duration{time.Second, 0}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var got time.Duration
			first := make(chan struct{})
			comb := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
				if items[0].Value.n < 0 {
					<-first
					return
				}
				if deadline, ok := ctx.Deadline(); ok {
					got = deadline.Sub(start)
				}
			}, batch.Options{Flushes: 1})
			var wg sync.WaitGroup
			wg.Go(func() { call(comb, context.Background(), -1) })
			synctest.Wait()
			for _, timeout := range c.timeouts {
				ctx := context.Background()
				if timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, timeout)
					defer cancel()
				}
				wg.Go(func() { call(comb, ctx, 1) })
			}
			synctest.Wait()
			close(first)
			wg.Wait()
			if got != c.want {
				t.Errorf("%v: the deadline is in %v", c.timeouts, got)
			}
		})
	}
}

func TestPanicsAreContained(t *testing.T) {
	c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
		if items[0].Value.n == 13 {
			panic("thirteen")
		}
		double(items)
	}, batch.Options{})
	if _, err := call(c, t.Context(), 13); err == nil || !strings.Contains(err.Error(), "thirteen") || errors.Is(err, batch.ErrNotSent) {
		t.Errorf("%v", err)
	}
	if answer, err := call(c, t.Context(), 1); answer != 2 || err != nil {
		t.Errorf("after a panic: %d, %v", answer, err)
	}
}

func TestErrorsAreThoseOfTheItems(t *testing.T) {
	odd := errors.New("odd")
	c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
		for _, it := range items {
			if it.Value.n%2 == 1 {
				it.Err = odd
			}
		}
		double(items)
	}, batch.Options{Flushes: 1})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			answer, err := call(c, t.Context(), i)
			if i%2 == 1 && err != odd || i%2 == 0 && (err != nil || answer != 2*i) {
				t.Errorf("%d: %d, %v", i, answer, err)
			}
		})
	}
	wg.Wait()
}

func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(batch.Options{Flushes: 1, Waiting: 3})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := call(c, t.Context(), 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if _, err := call(c, t.Context(), 1); !errors.Is(err, batch.ErrFull) || !errors.Is(err, batch.ErrNotSent) {
			t.Errorf("the fourth call in the queue: %v", err)
		}
		close(g.open)
		wg.Wait()
		if _, err := call(c, t.Context(), 1); err != nil {
			t.Errorf("once the queue has capacity again: %v", err)
		}
	})
}

// Every call gets exactly its own answer while many callers call and leave.
func TestManyCallersAndLeavers(t *testing.T) {
	var most, under, sent atomic.Int64
	c := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer under.Add(-1)
		sent.Add(int64(len(items)))
		double(items)
	}, batch.Options{Flushes: 3, Size: 16, OnCaller: true})
	var answered, withdrawn, unknown atomic.Int64
	var wg sync.WaitGroup
	const callers, each = 32, 500
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				ctx, cancel := context.WithCancel(context.Background())
				switch j % 3 {
				case 0:
					go cancel()
				case 1:
					ctx, cancel = context.WithTimeout(ctx, time.Hour)
				}
				n := i*each + j
				answer, err := call(c, ctx, n)
				switch {
				case err == nil && answer == 2*n:
					answered.Add(1)
				case errors.Is(err, batch.ErrNotSent):
					withdrawn.Add(1)
				case errors.Is(err, context.Canceled):
					unknown.Add(1)
				default:
					t.Errorf("%d: %d, %v", n, answer, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n > 3 {
		t.Errorf("%d flushes at a time", n)
	}
	want := callers*each - withdrawn.Load()
	if n := answered.Load() + withdrawn.Load() + unknown.Load(); n != callers*each {
		t.Errorf("%d calls answered, %d withdrawn, %d left", answered.Load(), withdrawn.Load(), unknown.Load())
	}
	// The last flushes may be those of callers that left.
	poll.Until(t, "each call that was not withdrawn to be sent once", func() bool { return sent.Load() == want })
}

func TestInvalidOptionsPanic(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "Flushes:-1") {
			t.Errorf("panic %q", text)
		}
	}()
	batch.New(func(context.Context, []*batch.Item[ask]) {}, batch.Options{Flushes: -1})
}

func BenchmarkDo(b *testing.B) {
	c := batch.New(func(_ context.Context, items []*batch.Item[ask]) { double(items) }, batch.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			b.SetParallelism(callers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := call(c, ctx, 1); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
