package router_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/router"
)

// A message has a time to be complete, however its client shows that it is alive.
func TestUnfinishedMessagesEnd(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	request, _ := echoOf(20_000)
	for _, c := range []struct {
		name  string
		begin []byte
		then  []byte // again and again
	}{
		{"half a header", []byte{0x81}, nil},
		{"half a header of a ping", []byte{0x89, 0x84, 1}, nil},
		{"half a frame", echo("1", "a")[:20], nil},
		{"a large frame", textFrame(request)[:15_000], nil},
		{"a large frame, byte by byte", textFrame(request)[:9000], []byte("a")[:0:0]},
		{"fragments and pongs", frame(opText, "{"), pong("")},
		{"fragments of a byte", frame(opText, "{"), frame(opCont, " ")},
		{"fragments of which each is whole", frame(opText, strings.Repeat(" ", 60_000)), frame(opCont, "")},
		{"the rest of what was too large", rawFrame{b0: fin | opBinary, payload: strings.Repeat("x", 70_000), declared: 1 << 30}.bytes(), []byte("x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			overPipes(t, func(t *testing.T, serve transport) {
				s := serve(t, router.Options{Liveness: router.Liveness{MessageTimeout: timeout}}, nil)
				p := s.dial()
				start := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = p.tryWrite(c.begin)
					for p.tryWrite(c.then) == nil && len(c.then) > 0 {
						time.Sleep(20 * time.Millisecond) // its client is alive
					}
				}()
				f := p.next()
				if f == "ERROR RESOURCE_EXHAUSTED" {
					f = p.next()
				}
				if f != "close 4000" {
					t.Errorf("got %.100q, want the connection to be closed with 4000", f)
				}
				if took := time.Since(start); took < timeout || took > 3*timeout {
					t.Errorf("it was closed after %v", took)
				}
				p.hangUp()
				<-done
				s.recovered()
			})
		})
	}
}

// What a connection holds in requests that wait for their turn is bounded in bytes.
func TestPendingBytes(t *testing.T) {
	t.Parallel()
	const size, maxPending = 60_000, 256 << 10
	for _, concurrent := range []bool{false, true} {
		overPipe(t, false, func(t *testing.T, serve transport) {
			var begun atomic.Int64
			release := make(chan struct{})
			s := serve(t, router.Options{Limits: router.Limits{MaxPending: maxPending}}, func(r *router.Router) {
				router.RPC(r, "wait", func(c *router.Context, m said) (said, error) {
					begun.Add(1)
					<-release
					return said{}, nil
				}, router.RouteOptions{Concurrent: concurrent})
			})
			p := s.dial()
			request := textFrame(`{"type":"wait","meta":{"correlationId":"1"},"payload":{"text":"` + strings.Repeat("x", size) + `"}}`)
			const n = 40
			sent := make(chan error, 1)
			var written atomic.Int64
			go func() {
				var err error
				for range n {
					if err = p.tryWrite(request); err != nil {
						break
					}
					written.Add(1)
				}
				sent <- err
			}()
			synctest.Wait() // the client is held back
			if begun.Load() < 1 {
				t.Error("no handler runs")
			}
			// Besides, one is being read.
			if most := int64(maxPending/size + 2); written.Load() > most {
				t.Errorf("%d requests of %d bytes were taken from the client, want %d at most", written.Load(), size, most)
			}
			if concurrent {
				if most := int64(maxPending/size + 1); begun.Load() > most {
					t.Errorf("%d requests of %d bytes are handled at once, want %d at most", begun.Load(), size, most)
				}
			}
			if q := s.r.Stats().Rejected; q != 0 {
				t.Errorf("%d requests were rejected, want them to wait", q)
			}
			close(release)
			for range n {
				p.expect("reply 1 ")
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			p.bye()
			s.recovered()
		})
	}
}
