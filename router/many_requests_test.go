package router_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/router"
)

func numberedRequest(typ string, n int) []byte {
	return textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"%d"},"payload":{"n":%d}}`, typ, n, n))
}

// A page that loads sends all its requests in one go. None is refused, and the answers come
// in order, whether the handlers are quick or so slow that all the others wait.
func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		n      int
		limits router.Limits
		work   func(n int)
	}{
		{"100, and each takes its time", 100, router.Limits{}, func(int) { spend(5 * time.Millisecond) }},
		{"1,000, and some take their time", 1000, router.Limits{}, func(n int) {
			if n%100 == 0 {
				spend(20 * time.Millisecond)
			}
		}},
		{"1,000, and one may wait", 1000, router.Limits{MaxInFlight: 1}, func(n int) {
			if n%100 == 0 {
				spend(20 * time.Millisecond)
			}
		}},
		{"1,000, and few bytes may wait", 1000, router.Limits{MaxPending: 4 << 10}, func(n int) {
			if n%100 == 0 {
				spend(20 * time.Millisecond)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			overPipe(t, false, func(t *testing.T, serve transport) {
				s := serve(t, router.Options{Limits: tc.limits}, func(r *router.Router) {
					router.RPC(r, "work", func(_ *router.Context, m numbered) (said, error) { tc.work(m.N); return said{"x"}, nil })
				})
				p := s.dial()
				var all []byte
				for i := range tc.n {
					all = append(all, numberedRequest("work", i)...)
				}
				go func() { _ = p.tryWrite(all) }()
				for i := range tc.n {
					p.expect(fmt.Sprintf("reply %d x", i))
				}
				if n := s.r.Stats().Rejected; n != 0 {
					t.Errorf("%d requests were rejected", n)
				}
				p.bye()
				s.recovered()
			})
		})
	}
}

// As many requests are handled at once as may be: one that waits for its turn is none of them.
func TestRequestsInOrderBesideConcurrentOnes(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxInFlight: 1}}, func(r *router.Router) {
		router.RPC(r, "wait", func(*router.Context, numbered) (said, error) { <-release; return said{"x"}, nil }, router.RouteOptions{Concurrent: true})
	})
	p := s.dial()
	p.write(join(numberedRequest("wait", 1), numberedRequest("wait", 2), echo("3", "x")))
	p.expect("RPC_ERROR 2 RESOURCE_EXHAUSTED", "reply 3 x")
	close(release)
	p.expect("reply 1 x")
	p.bye()
	s.recovered()
}

// holding serves messages that are handled when the test says so: "hold" is an event, "work" a
// request.
type holding struct {
	*socketServer
	*peer
	release chan struct{}
	handled atomic.Int64 // requests
}

func newHolding(t *testing.T, opts router.Options) *holding {
	t.Helper()
	h := &holding{release: make(chan struct{})}
	h.socketServer = serveSocket(t, opts, func(r *router.Router) {
		router.On(r, "hold", func(*router.Context, struct{}) error { <-h.release; return nil })
		router.RPC(r, "work", func(*router.Context, numbered) (said, error) { h.handled.Add(1); return said{"x"}, nil })
	})
	h.peer = h.dial()
	return h
}

func hold(n int) (all []byte) {
	for range n {
		all = append(all, textFrame(`{"type":"hold"}`)...)
	}
	return all
}

// The time of a request is over while it waits, and be it for room: it is answered then, and
// not handled later.
func TestDeadlinesOfRequestsThatWait(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{1, 2, 3} { // one is handled, two may wait, and for more there is no room
		t.Run(fmt.Sprint(waiting), func(t *testing.T) {
			h := newHolding(t, router.Options{Limits: router.Limits{MaxInFlight: 2}})
			h.write(join(hold(waiting), textFrame(`{"type":"work","meta":{"correlationId":"1","timeoutMs":30},"payload":{}}`)))
			h.expect("RPC_ERROR 1 DEADLINE_EXCEEDED")
			close(h.release)
			h.write(numberedRequest("work", 2))
			h.expect("reply 2 x")
			if n := h.handled.Load(); n != 1 {
				t.Errorf("%d requests were handled, want the one whose time was not over", n)
			}
			h.bye()
			h.recovered()
		})
	}
}

// An abort of a message that waits is read as long as the connection is read. Behind a message
// for which there is no room, it waits as well. Each request has one answer in any case.
func TestAbortsOfRequestsThatWait(t *testing.T) {
	t.Parallel()
	h := newHolding(t, router.Options{Limits: router.Limits{MaxInFlight: 2}})
	abort := func(n int) []byte {
		return textFrame(fmt.Sprintf(`{"type":"$ws:abort","meta":{"correlationId":"%d"}}`, n))
	}
	h.write(join(hold(1), numberedRequest("work", 1), numberedRequest("work", 2), abort(1)))
	h.expect("RPC_ERROR 1 CANCELLED")
	more := join(numberedRequest("work", 3), numberedRequest("work", 4), abort(2), abort(4))
	read := h.r.Stats().BytesRead
	h.write(more)
	eventually(t, "the reader to have it, and wait for room", func() bool { return h.r.Stats().BytesRead == read+int64(len(more)) })
	close(h.release)
	answers := map[int]int{}
	for range 3 {
		var id int
		if f := h.next(); !scan(f, "reply %d x", &id) && !scan(f, "RPC_ERROR %d CANCELLED", &id) {
			t.Fatalf("got %q", f)
		}
		answers[id]++
	}
	if len(answers) != 3 || answers[3] != 1 {
		t.Errorf("the answers to each are %v", answers)
	}
	h.bye()
	h.recovered()
}

// Requests that wait for the answer to an earlier one with their key keep no other waiting,
// and are bounded like those that are handled at once.
func TestRequestsThatStandInAreBounded(t *testing.T) {
	t.Parallel()
	const n, most = 40, 4
	release := make(chan struct{})
	s := openShop(t, shopOptions{}, func(*router.Context, order) (said, error) {
		<-release
		return said{"tea"}, nil
	}, router.Limits{MaxInFlight: most})
	first, again := s.as("a/ann"), s.as("a/ann")
	first.write(keyed("order", "1", "k", `{}`))
	eventually(t, "the first to be handled", func() bool { return s.handled.Load() == 1 })
	// Behind a request that takes its time until it stands in, others would wait in line, which has a bound of its own.
	letGo := sync.OnceFunc(router.HoldWatchdog(s.r))
	defer letGo()
	for i := range n {
		again.write(keyed("order", fmt.Sprint(i), "k", `{}`))
	}
	refused := 0
	for id := 0; refused < n-most; refused++ {
		if f := again.next(); !scan(f, "RPC_ERROR %d RESOURCE_EXHAUSTED", &id) {
			t.Fatalf("got %q", f)
		}
	}
	letGo()
	close(release)
	for range most {
		if f, id := again.next(), 0; !scan(f, "reply %d tea", &id) {
			t.Errorf("got %q", f)
		}
	}
	first.expect("reply 1 tea")
	first.bye()
	again.bye()
	s.recovered()
}
