package client_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
	"github.com/wskit/wskit/internal/poll"
)

func requestScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			got, err := client.Request[payload](within(t), a.Client, "echo", payload{N: n + 1, Text: strings.Repeat("é", n)})
			if err != nil || got.N != n+1 || got.Text != strings.Repeat("é", n) {
				t.Errorf("echo %d: %+v, %v", n, got, err)
			}
		})
	}
	all.Wait()
	_, err := client.Request[payload](within(t), a.Client, "fail", payload{Text: "NOT_FOUND"})
	if e := expectCode(t, err, errors.NotFound); e.Retryable() || e.Message != "as asked" || e.RetryAfter != 0 {
		t.Errorf("got %+v", e)
	}
	_, err = client.Request[payload](within(t), a.Client, "fail", payload{Text: "OUT_OF_TEA", Ms: 70})
	if e := expectCode(t, err, "OUT_OF_TEA"); !e.Retryable() || e.RetryAfter != 70*time.Millisecond {
		t.Errorf("got %+v", e)
	}
}

func abortScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	slow := a.start(ctx, "slow", payload{ID: "slow", Ms: 60_000})
	eventually(t, "slow to run", func() bool { return s.Log().Executions["slow"] == 1 })
	cancel()
	err := <-slow
	expectCode(t, err, errors.Cancelled)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, client.ErrUnknownOutcome) {
		t.Errorf("the error is %v", err)
	}
	a.request("echo", payload{}) // comes after the abort
	l := s.Log()
	sent, aborts := received(l, "slow"), received(l, "$ws:abort")
	if len(aborts) != 1 || aborts[0].CorrelationID != sent[0].CorrelationID {
		t.Errorf("aborted was %+v", aborts)
	}

	ok(t, s.Stop(clienttest.StopOptions{Kill: true}))
	a.awaitPhase(client.Waiting)
	ctx, cancel = context.WithCancel(context.Background())
	never := a.start(ctx, "count", payload{ID: "never"})
	cancel()
	err = <-never
	expectCode(t, err, errors.Cancelled)
	if errors.Is(err, client.ErrUnknownOutcome) {
		t.Errorf("the outcome of what was not sent is unknown: %v", err)
	}
	ok(t, s.Start(clienttest.StartOptions{}))
	a.request("echo", payload{})
	if frames := received(s.Log(), "count"); len(frames) > 0 {
		t.Errorf("received %+v", frames)
	}
}

func progressScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	for _, late := range []bool{false, true} {
		call := client.Follow[payload, payload](within(t), a.Client, "progress", payload{ID: "p", N: 20})
		if late {
			_, err := call.Reply()
			ok(t, err)
		}
		n := 0
		for p, err := range call.Progress() {
			ok(t, err)
			if n++; p.N != n {
				t.Errorf("progress %d has %d", n, p.N)
			}
		}
		if reply, err := call.Reply(); err != nil || n != 20 || reply.ID != "p" {
			t.Errorf("%d times progress, then %+v, %v", n, reply, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call := client.Follow[payload, payload](ctx, a.Client, "progress", payload{N: 1000, Ms: 1})
	n := 0
	for range call.Progress() {
		if n++; n == 2 {
			cancel()
		}
	}
	_, err := call.Reply()
	expectCode(t, err, errors.Cancelled)
}

func timeOutScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	timed := func(after time.Duration, typ string, p payload) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), after)
		defer cancel()
		_, err := client.Request[payload](ctx, a.Client, typ, p)
		expectCode(t, err, errors.DeadlineExceeded)
	}
	timed(3*time.Second, "slow", payload{ID: "slow", Ms: 60_000}) // it has been sent by then
	if f := received(s.Log(), "slow"); len(f) != 1 || !strings.Contains(f[0].Text, `"timeoutMs":`) {
		t.Errorf("received %+v", f)
	}
	ok(t, s.Stall(clienttest.StallOptions{}))
	timed(200*time.Millisecond, "echo", payload{ID: "stalled"})
	ok(t, s.Resume(struct{}{}))
	a.request("echo", payload{})
}

func followLimitsScenario(t *testing.T) {
	takesTime(t)
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.FloodLimit(clienttest.FloodLimit{Capacity: 5, Refill: 1, PerMs: 3_600_000}))
	a := act(t, s, "ann", client.Options{})
	request := func() error {
		_, err := client.Request[payload](within(t), a.Client, "limited", payload{})
		return err
	}
	ok(t, request())
	ok(t, request())
	if slices.ContainsFunc(s.Log().Sent, func(f clienttest.Frame) bool { return f.Type == "$ws:limits" }) {
		t.Error("$ws:limits came for a client that does not follow its limits")
	}
	limits := client.FollowLimits(a.Client, "limited")
	fits := func(want int) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("%d messages fit", want), func() bool { n, known := limits.Fits("limited"); return known && n == want })
	}
	fits(3)
	for range 3 {
		ok(t, request())
	}
	if n, known := limits.Fits("limited"); n != 0 || !known {
		t.Errorf("%d fit when all are used", n)
	}
	if err := request(); errors.CodeOf(err) != errors.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	_, err := a.Wait(within(t), func(s client.State) bool { return s.Phase == client.Connected && s.Connections == 2 })
	ok(t, err)
	fits(0)
	if left, known := limits.Left("flood"); !known || left >= 1 {
		t.Errorf("%g are left after the reconnect", left)
	}

	ok(t, s.FloodLimit(clienttest.FloodLimit{Capacity: 3, Refill: 3, PerMs: 300}))
	limits.Stop()
	limits = client.FollowLimits(a.Client, "limited")
	fits(3)
	for range 12 {
		ok(t, limits.Wait(within(t), "limited"))
		ok(t, request())
	}
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	_, err = a.Wait(within(t), func(s client.State) bool { return s.Phase == client.Connected && s.Connections == 3 })
	ok(t, err)
	fits(3)
}

func floodAndWaitScenario(t *testing.T) {
	takesTime(t)
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.FloodLimit(clienttest.FloodLimit{Capacity: 5, Refill: 5, PerMs: 500}))
	a := act(t, s, "ann", client.Options{})
	var outcomes []<-chan error
	var want []string
	for n := range 20 {
		want = append(want, fmt.Sprint("flood ", n))
		outcomes = append(outcomes, a.start(within(t), "limited", payload{ID: want[n]}, client.MessageOptions{WaitOnLimit: true}))
	}
	probe := func() { a.request("echo", payload{}); a.request("echo", payload{}) } // see overtaken
	probe()
	for n, failed := range outcomes {
		if err := <-failed; err != nil {
			t.Errorf("%s: %v", want[n], err)
		}
		probe()
	}
	l := s.Log()
	var executed []string
	for _, e := range l.Executed {
		if e.Type == "limited" {
			executed = append(executed, e.ID)
		}
	}
	for i, id := range executed {
		for _, later := range executed[:i] {
			if slices.Index(want, id) < slices.Index(want, later) && !overtaken(l, id, later) {
				t.Errorf("%s was executed before %s", later, id)
			}
		}
	}
	if len(executed) != 20 {
		t.Errorf("executed %v", executed)
	}
	if n := len(received(l, "limited")); n > 20+15+15+15 { // one refusal of each, and few more
		t.Errorf("%d frames were sent", n)
	}
	for _, f := range l.Sent { // no frame follows its refusal before its time
		if f.Type != "RPC_ERROR" {
			continue
		}
		var wait float64
		if _, err := fmt.Sscanf(f.Text[strings.Index(f.Text, `"retryAfterMs":`):], `"retryAfterMs":%f`, &wait); err != nil {
			t.Fatal(err)
		}
		for _, again := range l.Received {
			if again.CorrelationID == f.CorrelationID && again.AtMs > f.AtMs && again.AtMs < f.AtMs+wait-1 {
				t.Errorf("refused at %v for %v ms, and sent again at %v", f.AtMs, wait, again.AtMs)
			}
		}
	}

	for n := range 8 { // events
		ok(t, client.Send(within(t), a.Client, "limited.note", payload{ID: fmt.Sprint("note ", n)}, client.MessageOptions{WaitOnLimit: true}))
	}
	eventually(t, "all events to be executed", func() bool {
		n := 0
		for id, times := range s.Log().Executions {
			if strings.HasPrefix(id, "note") {
				n += times
			}
		}
		return n == 8
	})
}

// overtaken reports whether a message may have been written before the refusal of an earlier one was read. That refusal
// has been read when the client writes a probe after the answer to another one that came behind the refusal.
func overtaken(l clienttest.Log, earlier, later string) bool {
	first := func(id string) clienttest.Frame {
		return l.Received[slices.IndexFunc(l.Received, func(f clienttest.Frame) bool { return strings.Contains(f.Text, `"`+id+`"`) })]
	}
	refused := false
	for _, f := range l.Sent {
		refused = refused || f.Type == "RPC_ERROR" && f.CorrelationID == first(earlier).CorrelationID
		if !refused || f.Type != "echo.reply" {
			continue
		}
		probes := received(l, "echo")
		answered := slices.IndexFunc(probes, func(p clienttest.Frame) bool { return p.CorrelationID == f.CorrelationID })
		return answered+1 == len(probes) || first(later).AtMs < probes[answered+1].AtMs
	}
	return refused
}

func floodAndFailScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.FloodLimit(clienttest.FloodLimit{Capacity: 5, Refill: 5, PerMs: 60_000}))
	a := act(t, s, "ann", client.Options{})
	var outcomes []<-chan error
	for n := range 20 {
		outcomes = append(outcomes, a.start(within(t), "limited", payload{ID: fmt.Sprint("flood ", n)}))
	}
	answered := 0
	for _, failed := range outcomes {
		if err := <-failed; err == nil {
			answered++
		} else if e := expectCode(t, err, errors.ResourceExhausted); !e.Retryable() || e.RetryAfter <= 0 {
			t.Errorf("got %+v", e)
		}
	}
	if n := len(received(s.Log(), "limited")); answered != 5 || n != 20 {
		t.Errorf("%d answered, %d received", answered, n)
	}
	// A refused event is reported.
	for range 7 {
		ok(t, client.Send(within(t), a.Client, "limited.note", payload{}))
	}
	eventually(t, "the refusals of events to be reported", func() bool { return len(a.failures()) == 7 || len(a.failures()) == 2 })
}

func idempotentRetryScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	ok(t, s.Cut(clienttest.Cut{Type: "count.once.reply", At: 3}))
	key := rand.Text()
	if got := a.request("count.once", payload{ID: "once"}, client.MessageOptions{IdempotencyKey: key}); got.N != 1 {
		t.Errorf("got %+v", got)
	}
	l := s.Log()
	frames := received(l, "count.once")
	if len(frames) < 2 || frames[0].IdempotencyKey != key || frames[1].IdempotencyKey != key || frames[0].Conn == frames[1].Conn || l.Executions["once"] != 1 {
		t.Errorf("received %+v, executed %d times", frames, l.Executions["once"])
	}
}

func unknownOutcomeScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	ok(t, s.Cut(clienttest.Cut{Type: "count.reply", At: 3}))
	_, err := client.Request[payload](within(t), a.Client, "count", payload{ID: "once"})
	if e := expectCode(t, err, "UNKNOWN_OUTCOME"); !errors.Is(err, client.ErrUnknownOutcome) || e.Retryable() {
		t.Errorf("the error is %v", err)
	}
	a.request("echo", payload{})
	if l := s.Log(); l.Executions["once"] != 1 || len(received(l, "count")) != 1 {
		t.Errorf("executed %d times, received %d times", l.Executions["once"], len(received(l, "count")))
	}
}

func neverWrittenScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	ok(t, s.Stop(clienttest.StopOptions{Kill: true}))
	a.awaitPhase(client.Waiting)
	later := a.start(within(t), "count", payload{ID: "later"})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := client.Request[payload](ctx, a.Client, "count", payload{ID: "never"})
	expectCode(t, err, errors.DeadlineExceeded)
	if errors.Is(err, client.ErrUnknownOutcome) {
		t.Errorf("the outcome of what was not sent is unknown: %v", err)
	}
	ok(t, s.Start(clienttest.StartOptions{}))
	ok(t, <-later)
	if l := s.Log(); l.Executions["later"] != 1 || l.Executions["never"] != 0 || len(received(l, "count")) != 1 {
		t.Errorf("executed %v, received %+v", l.Executions, received(l, "count"))
	}
}

func queueOverflowScenario(t *testing.T) {
	for _, wait := range []bool{false, true} {
		s := clienttest.Start(t, clienttest.Options{})
		a := act(t, s, "ann", client.Options{MaxQueued: 5, MaxQueuedBytes: 4096, WaitForRoom: wait})
		ok(t, s.Stop(clienttest.StopOptions{Kill: true}))
		a.awaitPhase(client.Waiting)
		if err := client.Send(within(t), a.Client, "note", payload{ID: "large", Text: strings.Repeat("x", 1<<20)}); !errors.Is(err, client.ErrQueueFull) {
			t.Errorf("the large one: %v", err)
		}
		var outcomes []<-chan error
		later := func(call func() error) {
			outcome := make(chan error, 1)
			go func() { outcome <- call() }()
			outcomes = append(outcomes, outcome)
		}
		for n := range 20 {
			count, note := payload{ID: fmt.Sprint("count ", n)}, payload{ID: fmt.Sprint("note ", n)}
			if wait {
				later(func() error { return <-a.start(within(t), "count", count) })
				later(func() error { return client.Send(within(t), a.Client, "note", note) })
			} else {
				outcomes = append(outcomes, a.start(within(t), "count", count)) // it is queued or refused when start returns
			}
		}
		room := 5
		if wait {
			room = len(outcomes)
		}
		ok(t, s.Start(clienttest.StartOptions{}))
		for n, outcome := range outcomes {
			switch err := <-outcome; {
			case n < room && err != nil:
				t.Errorf("what has room: %v", err)
			case n >= room && !errors.Is(err, client.ErrQueueFull):
				t.Errorf("what has none: %v", err)
			}
		}
		eventually(t, "what has room to be executed", func() bool { return len(s.Log().Executed) >= room })
		if n := len(s.Log().Executed); n > room {
			t.Errorf("%d are executed, with room for %d", n, room)
		}
		if n := s.Log().Executions["large"]; n != 0 {
			t.Errorf("the large one was executed %d times", n)
		}
	}
}

func orderScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	ok(t, s.FloodLimit(clienttest.FloodLimit{Capacity: 3, Refill: 3, PerMs: 30}))
	for n := range 200 {
		id := fmt.Sprintf("%03d", n)
		switch n % 4 {
		case 0, 2:
			if err := client.Send(within(t), a.Client, "note", payload{ID: id}); err != nil && !errors.Is(err, client.ErrUnknownOutcome) {
				t.Errorf("note %s: %v", id, err)
			}
		case 1:
			a.start(within(t), "echo", payload{ID: id})
		default:
			_, err := client.Request[payload](within(t), a.Client, "limited", payload{ID: id}, client.MessageOptions{WaitOnLimit: true})
			if err != nil && !errors.Is(err, client.ErrUnknownOutcome) {
				t.Errorf("limited %s: %v", id, err)
			}
		}
		if n%40 == 39 {
			ok(t, s.CutNow(clienttest.CutNowOptions{}))
		}
	}
	a.request("echo", payload{ID: "last"}, client.MessageOptions{IdempotencyKey: "last"})
	var executed []string
	for _, e := range s.Log().Executed {
		executed = append(executed, e.ID)
	}
	if !slices.IsSorted(executed) || len(executed) < 150 || len(slices.Compact(slices.Clone(executed))) != len(executed) {
		t.Errorf("executed %v", executed)
	}
}

func largeFramesScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	if got := a.request("big", payload{N: 1 << 20}); len(got.Text) != 1<<20 {
		t.Errorf("got %d bytes", len(got.Text))
	}
	_, err := client.Request[payload](within(t), a.Client, "echo", payload{Text: strings.Repeat("x", 200<<10)})
	if e := expectCode(t, err, errors.ResourceExhausted); e.Retryable() {
		t.Errorf("got %+v", e)
	}
	a.request("echo", payload{})
	if n := a.State().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
}
