package router_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/router"
)

// Handlers of random duration, so that the watchdog detaches some of them and
// what follows has to wait: answers come in the order of the questions, one
// each.
func TestOrderOfTenThousand(t *testing.T) {
	t.Parallel()
	const n = 10_000
	handled := 0 // without a lock: the race detector sees handlers that overlap
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxInFlight: n, MaxQueued: 64 << 20}}, func(r *router.Router) {
		router.RPC(r, "work", func(_ *router.Context, m numbered) (said, error) {
			if m.N != handled {
				t.Errorf("message %d is handled as number %d", m.N, handled)
			}
			handled++
			switch {
			case m.N%300 == 0:
				spend(time.Duration(rand.N(8_000)) * time.Microsecond)
			case m.N%40 == 0:
				spend(time.Duration(rand.N(300)) * time.Microsecond)
			}
			return said{"x"}, nil
		})
	})
	p := s.dial()
	go func() {
		var batch []byte
		for i := range n {
			batch = append(batch, textFrame(fmt.Sprintf(`{"type":"work","meta":{"correlationId":"%d"},"payload":{"n":%d}}`, i, i))...)
			if rand.N(10) == 0 || i == n-1 { // writes that end on and off frame boundaries
				cut := rand.N(len(batch) + 1)
				_ = p.tryWrite(batch[:cut])
				_ = p.tryWrite(batch[cut:])
				batch = batch[:0]
			}
		}
	}()
	for i := range n {
		p.expect(fmt.Sprintf("reply %d x", i))
	}
	p.bye()
	s.recovered()
}

// Events beyond MaxInFlight hold the connection up; none is lost or overtaken.
func testOrderOfEventsUnderBackpressure(t *testing.T, serve transport) {
	const n = 3000
	s := serve(t, router.Options{Limits: router.Limits{MaxInFlight: 4, MaxQueued: 64 << 20}}, func(r *router.Router) {
		router.On(r, "work", func(c *router.Context, m numbered) error {
			if m.N%100 == 0 {
				spend(time.Duration(rand.N(10_000)) * time.Microsecond)
			}
			return c.Send("done", m)
		})
	})
	p := s.dial()
	go func() {
		var all []byte
		for i := range n {
			all = append(all, textFrame(fmt.Sprintf(`{"type":"work","payload":{"n":%d}}`, i))...)
		}
		_ = p.tryWrite(all)
	}()
	for i := range n {
		p.expect(fmt.Sprintf(`done {"n":%d}`, i))
	}
	p.bye()
	s.recovered()
}

// More requests at once than a concurrent route may handle: each has one answer.
func TestInFlightLimitAnswersEachOnce(t *testing.T) {
	t.Parallel()
	const n = 3000
	refuses := make(chan struct{})
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxInFlight: 3}}, func(r *router.Router) {
		router.RPC(r, "work", func(_ *router.Context, m numbered) (said, error) {
			<-refuses
			return said{"x"}, nil
		}, router.RouteOptions{Concurrent: true})
	})
	p := s.dial()
	go func() {
		for i := range n {
			_ = p.tryWrite(textFrame(fmt.Sprintf(`{"type":"work","meta":{"correlationId":"%d"},"payload":{"n":%d}}`, i, i)))
		}
	}()
	answers := make([]int, n)
	refused := 0
	for range n {
		f := p.next()
		var id int
		switch {
		case scan(f, "reply %d x", &id):
		case scan(f, "RPC_ERROR %d RESOURCE_EXHAUSTED", &id):
			if refused++; refused == 1 {
				close(refuses)
			}
		default:
			t.Fatalf("got %.100q", f)
		}
		answers[id]++
	}
	for id, a := range answers {
		if a != 1 {
			t.Errorf("request %d has %d answers", id, a)
		}
	}
	if refused == 0 || int64(refused) != s.r.Stats().Rejected {
		t.Errorf("%d requests were refused, Stats says %d; want the same and more than none", refused, s.r.Stats().Rejected)
	}
	p.bye()
	s.recovered()
}

func scan(s, format string, id *int) bool {
	_, err := fmt.Sscanf(s, format, id)
	return err == nil && fmt.Sprintf(format, *id) == s
}

// Requests are completed, aborted by the client and run out of time at the same
// moment: whichever comes first, there is one terminal answer, and no progress
// after it.
func TestOneAnswerWhicheverComesFirst(t *testing.T) {
	t.Parallel()
	const n, window = 4000, 40
	for _, c := range []struct {
		name       string
		concurrent bool
	}{{"in order", false}, {"concurrent", true}} {
		t.Run(c.name, func(t *testing.T) {
			overPipe(t, false, func(t *testing.T, serve transport) {
				var running atomic.Int64
				// A handler that goes on after its answer keeps its place in flight.
				s := serve(t, router.Options{Limits: router.Limits{MaxInFlight: n}}, func(r *router.Router) {
					router.RPC(r, "race", func(k *router.Context, m numbered) (said, error) {
						running.Add(1)
						defer running.Add(-1)
						if m.N%8 == 0 {
							_ = k.Progress(1)
						}
						switch m.N % 4 {
						case 0: // at once
						case 1: // about when its time is over
							spend(time.Millisecond)
						case 2: // when reported to
							<-k.Done()
							return said{}, k.Err()
						case 3: // reported to, and does not care
							select {
							case <-k.Done():
							case <-time.After(time.Millisecond):
							}
							_ = k.Progress(2)
						}
						return said{"x"}, nil
					}, router.RouteOptions{Concurrent: c.concurrent})
				})
				p := s.dial()
				tokens := make(chan struct{}, window) // how many are open at once
				go func() {
					for i := range n {
						tokens <- struct{}{}
						timeout := 1 + rand.N(4)
						send := textFrame(fmt.Sprintf(`{"type":"race","meta":{"correlationId":"%d","timeoutMs":%d},"payload":{"n":%d}}`, i, timeout, i))
						if rand.N(3) > 0 {
							victim := i - rand.N(3)
							send = join(send, textFrame(fmt.Sprintf(`{"type":"$ws:abort","meta":{"correlationId":"%d"}}`, victim)))
						}
						if p.tryWrite(send) != nil {
							return
						}
					}
				}()
				answers := make([]string, n)
				for done := 0; done < n; {
					f := p.next()
					var id int
					if scan(f, "reply %d x", &id) || scan(f, "RPC_ERROR %d CANCELLED", &id) || scan(f, "RPC_ERROR %d DEADLINE_EXCEEDED", &id) {
						if answers[id] != "" {
							t.Fatalf("request %d is answered %q and then %q", id, answers[id], f)
						}
						answers[id] = f
						done++
						<-tokens
						continue
					}
					if !strings.HasPrefix(f, "$ws:rpc-progress") {
						t.Fatalf("got %.100q", f)
					}
				}
				// A second answer could only come from a handler that still runs.
				eventually(t, "the handlers to return", func() bool { return running.Load() == 0 })
				p.write(echo("last", "x"))
				p.expect("reply last x")
				p.bye()
				s.recovered()
			})
		})
	}
}

// Two requests of one id are two requests: each has an answer.
func TestTheSameIDTwice(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "wait", func(c *router.Context, _ struct{}) (said, error) { <-c.Done(); return said{}, c.Err() },
			router.RouteOptions{Concurrent: true})
	})
	p := s.dial()
	wait := textFrame(`{"type":"wait","meta":{"correlationId":"1"}}`)
	p.write(join(wait, wait, textFrame(`{"type":"$ws:abort","meta":{"correlationId":"1"}}`)))
	p.expect("RPC_ERROR 1 CANCELLED", "RPC_ERROR 1 CANCELLED")
	p.write(echo("2", "x"))
	p.expect("reply 2 x")
	p.bye()
	s.recovered()
}
