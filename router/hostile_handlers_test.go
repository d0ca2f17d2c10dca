package router_test

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

var unmade map[string]int

// panics are the ways in which a handler can blow up.
var panics = map[string]func(){
	"string": func() { panic("secret") },
	"error":  func() { panic(stderrors.New("secret")) },
	// An error with a code does not make a panic less of a fault.
	"coded error": func() { panic(errors.NotFound.New("secret")) },
	"nil":         func() { panic(nil) },
	"nil map":     func() { unmade["secret"] = 1 },
	"nil pointer": func() { var p *said; p.Text = "secret" },
	"index":       func() { var a []int; _ = a[len(os.Args)] },
	"abort":       func() { panic(io.EOF) },
}

func TestHandlersThatPanic(t *testing.T) {
	t.Parallel()
	var faults atomic.Int64
	s := serveSocket(t, router.Options{OnError: func(f router.Fault) {
		faults.Add(1)
		if f.Err == nil || f.Stack == nil || f.Conn == nil {
			t.Errorf("the fault %+v does not say what and where", f)
		}
	}}, func(r *router.Router) {
		for name, blowUp := range panics {
			late := func() {
				router.DetachHandlers(r)
				blowUp()
			}
			for _, v := range []struct {
				typ  string
				f    func()
				opts router.RouteOptions
			}{
				{name, blowUp, router.RouteOptions{}},
				{name + " late", late, router.RouteOptions{}},
				{name + " concurrent", blowUp, router.RouteOptions{Concurrent: true}},
			} {
				router.RPC(r, v.typ, func(*router.Context, struct{}) (int, error) { v.f(); return 1, nil }, v.opts)
				router.On(r, v.typ+" event", func(*router.Context, struct{}) error { v.f(); return nil }, v.opts)
			}
		}
	})
	p := s.dial()
	want := int64(0)
	for name := range panics {
		for _, how := range []string{"", " late", " concurrent"} {
			p.write(textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"}}`, name+how)))
			if got := p.next(); got != "RPC_ERROR 1 INTERNAL" {
				t.Errorf("the panic %s%s in a request is answered %q, want RPC_ERROR 1 INTERNAL", name, how, got)
			}
			p.write(textFrame(fmt.Sprintf(`{"type":%q}`, name+how+" event")))
			if got := p.next(); got != "ERROR INTERNAL" {
				t.Errorf("the panic %s%s in an event is answered %q, want ERROR INTERNAL", name, how, got)
			}
			want += 2
		}
	}
	if n := faults.Load(); n != want {
		t.Errorf("%d faults were reported, want %d", n, want)
	}
	p.bye()
	s.recovered()
}

// runtime.Goexit ends the goroutine, which plays a part in the connection: it
// is given up, in good order.
func TestHandlersThatExit(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{OnError: func(router.Fault) {}}, func(r *router.Router) {
		exit := func(*router.Context, struct{}) (int, error) { runtime.Goexit(); return 1, nil }
		router.RPC(r, "exit", exit)
		router.RPC(r, "exit concurrent", exit, router.RouteOptions{Concurrent: true})
		router.RPC(r, "exit late", func(*router.Context, struct{}) (int, error) {
			router.DetachHandlers(r)
			runtime.Goexit()
			return 1, nil
		})
	})
	for _, typ := range []string{"exit", "exit late", "exit concurrent"} {
		p := s.dial()
		p.write(textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"}}`, typ)))
		p.expect("RPC_ERROR 1 INTERNAL", "close 1011")
		p.write(closing(1011, ""))
		p.expect("end")
	}
	s.recovered()
}

// Hooks that call runtime.Goexit are called again for the next one, and neither
// cost an answer.
func TestHooksThatExit(t *testing.T) {
	t.Parallel()
	faults, reported := make(chan string, 2), make(chan string, 2)
	s := serveSocket(t, router.Options{
		Limits:          router.Limits{MaxPayload: 256},
		OnError:         func(f router.Fault) { faults <- f.Type; runtime.Goexit() },
		OnLimitExceeded: func(info router.LimitInfo) { reported <- string(info.Kind); runtime.Goexit() },
	}, func(r *router.Router) {
		router.RPC(r, "fail", func(*router.Context, struct{}) (int, error) { return 0, errors.New("disk is full") })
	})
	p := s.dial()
	for range 2 {
		p.write(textFrame(`{"type":"fail","meta":{"correlationId":"1"}}`))
		p.expect("RPC_ERROR 1 INTERNAL")
		if typ := <-faults; typ != "fail" {
			t.Errorf("OnError got %q", typ)
		}
		p.write(textFrame(`{"type":"echo","meta":{"correlationId":"2"},"payload":"` + strings.Repeat("x", 300) + `"}`))
		p.expect("RPC_ERROR 2 RESOURCE_EXHAUSTED")
		if kind := <-reported; kind != "payload" {
			t.Errorf("OnLimitExceeded got %q", kind)
		}
	}
	p.bye()
	s.recovered()
}

// What a handler that exited held is not used again while a goroutine may still
// look at it: the requests of other connections are not affected.
func TestExitDoesNotReachOtherConnections(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{OnError: func(router.Fault) {}}, func(r *router.Router) {
		router.RPC(r, "exit", func(*router.Context, struct{}) (int, error) { runtime.Goexit(); return 1, nil })
		router.RPC(r, "work", func(c *router.Context, m said) (said, error) {
			spendUntil(c.Done(), 15*time.Millisecond)
			return m, c.Err()
		})
	})
	const others = 8
	var workers sync.WaitGroup
	var stop atomic.Bool
	for range others {
		p := s.dial()
		workers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				p.write(textFrame(fmt.Sprintf(`{"type":"work","meta":{"correlationId":"%d"},"payload":{"text":"x"}}`, n)))
				if got, want := p.next(), fmt.Sprintf("reply %d x", n); got != want {
					t.Errorf("a request beside handlers that exit got %q, want %q", got, want)
					return
				}
			}
		})
	}
	for range 60 {
		p := s.dial()
		p.write(textFrame(`{"type":"exit","meta":{"correlationId":"1"}}`))
		p.expect("RPC_ERROR 1 INTERNAL", "close 1011")
		p.write(closing(1011, ""))
		p.expect("end")
		p.hangUp()
	}
	stop.Store(true)
	workers.Wait()
	s.hangUpAll()
	s.recovered()
}

// A handler that ignores its context delays no connection but its own
// connection's later messages; the connection ends without it.
func TestHandlersThatHang(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serveSocket(t, router.Options{RequestTimeout: 200 * time.Millisecond}, func(r *router.Router) {
		hang := func(*router.Context, struct{}) (int, error) {
			<-release
			return 1, nil
		}
		router.RPC(r, "hang", hang)
		router.RPC(r, "hang concurrent", hang, router.RouteOptions{Concurrent: true})
		router.On(r, "hang event", func(c *router.Context, m struct{}) error { _, err := hang(c, m); return err })
	})
	// The request and the one behind it are answered though neither gets to run.
	p := s.dial()
	p.write(join(textFrame(`{"type":"hang","meta":{"correlationId":"1"}}`), echo("2", "a")))
	p.expectInAnyOrder("RPC_ERROR 1 DEADLINE_EXCEEDED", "RPC_ERROR 2 DEADLINE_EXCEEDED")
	// The connection is still read.
	p.write(ping("p"))
	p.expect("pong p")
	p.write(textFrame(`{"type":"hang concurrent","meta":{"correlationId":"3"}}`))
	p.expect("RPC_ERROR 3 DEADLINE_EXCEEDED")
	p.hangUp()

	// An event that hangs, and more events than may wait behind it: the
	// connection is not read any more, and still ends when the client goes.
	q := s.dial()
	q.write(join(textFrame(`{"type":"hang event"}`), echo("1", "a"), ping("p")))
	q.expectInAnyOrder("pong p", "RPC_ERROR 1 DEADLINE_EXCEEDED")
	q.reset()

	next := s.dial()
	next.write(echo("1", "a"))
	next.expect("reply 1 a")
	next.bye()
	eventually(t, "the connections to end though their handlers hang", func() bool { return s.r.Stats().Connections == 0 })
	close(release)
	s.recovered()
}

// Handlers that return after their connection has ended.
func TestHandlersThatOutliveTheConnection(t *testing.T) {
	t.Parallel()
	began, results := make(chan struct{}, 10), make(chan error, 10)
	s := serveSocket(t, router.Options{OnError: func(f router.Fault) { t.Errorf("fault: %+v", f) }}, func(r *router.Router) {
		subscribing(r)
		outlive := func(c *router.Context, _ struct{}) (int, error) {
			began <- struct{}{}
			<-c.Done()
			results <- c.Send("late", nil)
			results <- c.Progress(1)
			results <- c.Subscribe("topic")
			results <- c.Publish("other topic", "late", nil)
			return 1, nil
		}
		router.RPC(r, "outlive", outlive)
		router.RPC(r, "outlive concurrent", outlive, router.RouteOptions{Concurrent: true})
	})
	for i := range 40 {
		typ := []string{"outlive", "outlive concurrent"}[i%2]
		p := s.dial()
		p.write(join(join1("topic"), textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"}}`, typ))))
		p.expect("reply j topic")
		<-began // a handler that has not begun when the connection ends never begins
		p.reset()
		for _, want := range []error{router.ErrClosed, router.ErrClosed, router.ErrClosed, nil} {
			if err := poll.Receive(t, results, typ+" to go on"); err != want && !stderrors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", typ, err, want)
			}
		}
		s.settled()
	}
	s.recovered()
}

func TestHandlersThatClose(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{OnError: func(router.Fault) {}}, func(r *router.Router) {
		router.RPC(r, "close", func(c *router.Context, _ struct{}) (int, error) {
			c.Conn().Close(4002, "first")
			c.Conn().Close(4003, "second")
			if err := c.Send("late", nil); err != router.ErrClosed {
				t.Errorf("sending after Close: %v, want ErrClosed", err)
			}
			return 1, nil
		})
		router.RPC(r, "close concurrent", func(c *router.Context, _ struct{}) (int, error) {
			c.Conn().Close(4002, "")
			return 1, nil
		}, router.RouteOptions{Concurrent: true})
		router.RPC(r, "close badly", func(c *router.Context, _ struct{}) (int, error) {
			c.Conn().Close(1006, "must not be sent")
			return 1, nil
		})
	})
	p := s.dial()
	p.write(join(echo("0", "a"), textFrame(`{"type":"close","meta":{"correlationId":"1"}}`), echo("2", "b")))
	p.expect("reply 0 a", "close 4002")
	p.write(closing(4002, ""))
	p.expect("end")

	p = s.dial()
	p.write(textFrame(`{"type":"close concurrent","meta":{"correlationId":"1"}}`))
	p.expect("close 4002")
	p.write(closing(4002, ""))
	p.expect("end")

	p = s.dial()
	p.write(textFrame(`{"type":"close badly","meta":{"correlationId":"1"}}`))
	p.expect("RPC_ERROR 1 INTERNAL")
	p.bye()
	s.recovered()
}

// A handler that publishes to a topic its own connection is in gets what it
// published before its own reply.
func TestHandlersThatPublishToThemselves(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		subscribing(r)
		router.RPC(r, "say", func(c *router.Context, m numbered) (said, error) {
			for i := range m.N {
				if err := c.Publish("room", "heard", numbered{N: i}); err != nil {
					return said{}, err
				}
			}
			return said{"done"}, c.Publish("room", "not heard", nil, router.PublishOptions{Except: c.Conn().ID()})
		})
	})
	p := s.dial()
	p.write(join1("room"))
	p.expect("reply j room")
	const n = 500
	p.write(textFrame(fmt.Sprintf(`{"type":"say","meta":{"correlationId":"1"},"payload":{"n":%d}}`, n)))
	for i := range n {
		p.expect(fmt.Sprintf(`heard {"n":%d}`, i))
	}
	p.expect("reply 1 done")
	p.bye()
	s.recovered()
}

// Many goroutines send on one connection, while its own handlers do, too: every
// sender's messages come in its order, whole.
func TestStormOfSenders(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 300 // MaxInFlight is no concern here
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxQueued: 64 << 20, MaxInFlight: each}}, func(r *router.Router) {
		subscribing(r)
		router.RPC(r, "conn", func(c *router.Context, m said) (said, error) { conns <- c.Conn(); return m, nil })
	})
	p := s.dial()
	p.write(join(join1("storm"), textFrame(`{"type":"conn","meta":{"correlationId":"c"},"payload":{"text":""}}`)))
	p.expect("reply j storm", "reply c ")
	conn := <-conns
	var storm sync.WaitGroup
	for sender := range senders {
		storm.Go(func() {
			typ := fmt.Sprintf("s%d", sender)
			for n := range each {
				m := numbered{n, strings.Repeat("z", n*7%3000)}
				var err error
				if sender%2 == 0 {
					err = conn.Send(typ, m)
				} else {
					err = s.r.Publish(t.Context(), "storm", typ, m)
				}
				if err != nil {
					t.Errorf("sender %d: %v", sender, err)
				}
			}
		})
	}
	storm.Go(func() {
		for n := range each {
			p.write(echo(fmt.Sprint(n), "e"))
		}
	})
	next := make([]int, senders)
	replies := 0
	for range (senders + 1) * each {
		f := p.next()
		if f == fmt.Sprintf("reply %d e", replies) {
			replies++
			continue
		}
		typ, _, _ := strings.Cut(f, " ")
		var sender int
		if _, err := fmt.Sscanf(typ, "s%d", &sender); err != nil {
			t.Fatalf("got %.100q", f)
		}
		if n := number(f, typ); n != next[sender] {
			t.Fatalf("sender %d: got %d, want %d", sender, n, next[sender])
		}
		next[sender]++
	}
	storm.Wait()
	p.bye()
	s.recovered()
}

// What a crash of the whole process would show is run in a process of its own.
func inSubprocess(t *testing.T, body func()) {
	t.Helper()
	const env = "WSKIT_TEST_SUBPROCESS"
	if os.Getenv(env) == t.Name() {
		body()
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), poll.Guard)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	// The race detector holds a process up for a second at its end.
	cmd.Env = append(os.Environ(), env+"="+t.Name(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the server's process: %v\n%.3000s", err, out)
	}
}

// bomb panics when it is decoded.
type bomb struct{ N int }

func (b *bomb) UnmarshalJSON([]byte) error { panic("secret") }

// A panic while a payload is decoded or validated is contained like one of the
// handler: it must not end the process with all its connections.
func TestPanicWhileDecoding(t *testing.T) {
	t.Parallel()
	inSubprocess(t, func() {
		s := serveSocket(t, router.Options{OnError: func(router.Fault) {}}, func(r *router.Router) {
			router.RPC(r, "bomb", func(*router.Context, bomb) (int, error) { return 1, nil })
		})
		p := s.dial()
		p.write(textFrame(`{"type":"bomb","meta":{"correlationId":"1"},"payload":{}}`))
		p.expect("RPC_ERROR 1 INTERNAL")
		p.bye()
		s.recovered()
	})
}

func TestPanicWhileValidating(t *testing.T) {
	t.Parallel()
	inSubprocess(t, func() {
		type misspelt struct {
			Text string `json:"text" validate:"requird"` // the validator panics when it meets it
		}
		s := serveSocket(t, router.Options{OnError: func(router.Fault) {}}, func(r *router.Router) {
			defer func() { _ = recover() }() // failing at start-up would be better still
			router.RPC(r, "misspelt", func(*router.Context, misspelt) (int, error) { return 1, nil })
		})
		p := s.dial()
		p.write(textFrame(`{"type":"misspelt","meta":{"correlationId":"1"},"payload":{"text":"a"}}`))
		if got := p.next(); got != "RPC_ERROR 1 INTERNAL" && got != "RPC_ERROR 1 UNIMPLEMENTED" {
			t.Errorf("got %q, want RPC_ERROR 1 INTERNAL", got)
		}
		p.bye()
		s.recovered()
	})
}

// A goroutine that sends until the connection is gone, and only then asks for
// its context, asks while the connection is being taken apart.
func TestContextOfAConnectionThatIsEnding(t *testing.T) {
	t.Parallel()
	inSubprocess(t, func() {
		var tickers sync.WaitGroup
		s := serveSocket(t, router.Options{OnOpen: func(c *router.Conn) error {
			tickers.Go(func() {
				for c.Send("tick", nil) == nil {
				}
				<-c.Context().Done()
			})
			return nil
		}}, nil)
		for range 300 {
			p := s.dial()
			p.expect("tick ")
			p.reset()
		}
		tickers.Wait()
		s.settled()
	})
}

// The same without luck: a broker asks for the context when the connection's
// subscription ends.
func TestContextUsedByABroker(t *testing.T) {
	t.Parallel()
	inSubprocess(t, func() {
		b := &askingBroker{asked: make(chan error, 1)}
		s := serveSocket(t, router.Options{
			Backend: adapters.Backend{Broker: b},
			OnOpen:  func(c *router.Conn) error { b.conn.Store(c); return nil },
		}, subscribing)
		p := s.dial()
		p.write(join1("topic"))
		p.expect("reply j topic")
		p.hangUp()
		if err := poll.Receive(t, b.asked, "the subscription to be closed"); err != context.Canceled {
			t.Errorf("the context of a connection that is ending: %v, want %v", err, context.Canceled)
		}
		eventually(t, "the connection to be forgotten", func() bool { return s.r.Stats().Connections == 0 })
		b.conn.Store(nil)
	})
}

type askingBroker struct {
	conn  atomic.Pointer[router.Conn]
	asked chan error
}

func (b *askingBroker) Publish(context.Context, pubsub.Message) error { return nil }
func (b *askingBroker) Subscribe(context.Context, string, func(pubsub.Message)) (pubsub.Subscription, error) {
	return b, nil
}

func (b *askingBroker) Close() error {
	if c := b.conn.Load(); c != nil {
		b.asked <- c.Context().Err()
	}
	return nil
}

// Middleware that tries again after a failed reply must not leave the failed
// one's beginning in the answer.
func TestMiddlewareThatRetries(t *testing.T) {
	t.Parallel()
	type reply struct {
		A string `json:"a"`
		B any    `json:"b"`
	}
	var calls atomic.Int64
	s := serveSocket(t, router.Options{OnError: func(router.Fault) {}}, func(r *router.Router) {
		r.UseHandler(func(next router.Handler) router.Handler {
			return func(c *router.Context) error {
				if next(c) == nil {
					return nil
				}
				return next(c)
			}
		})
		router.RPC(r, "flaky", func(*router.Context, struct{}) (reply, error) {
			if calls.Add(1) == 1 {
				return reply{A: "x", B: func() {}}, nil // does not encode, and is found out half way
			}
			return reply{A: "y", B: 1}, nil
		})
	})
	p := s.dial()
	p.write(textFrame(`{"type":"flaky","meta":{"correlationId":"1"}}`))
	f, err := p.read()
	if err != nil || !json.Valid(f.payload) || strings.Count(string(f.payload), `"payload"`) != 1 {
		t.Errorf("got %q, %v; want JSON with one payload", f.payload, err)
	}
	p.bye()
	s.recovered()
}
