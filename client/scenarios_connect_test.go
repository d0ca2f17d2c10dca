package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
)

func connectScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	if user, err := client.Request[string](within(t), a.Client, "whoami", nil); err != nil || user != "ann" {
		t.Errorf("got %q, %v", user, err)
	}
	if got := a.request("echo", payload{ID: "e", Text: "hi"}); got != (payload{ID: "e", Text: "hi"}) {
		t.Errorf("got %+v", got)
	}
	ok(t, client.Send(within(t), a.Client, "note", payload{ID: "n"}))
	eventually(t, "the event to be executed", func() bool { return s.Log().Executions["n"] == 1 })
	l := s.Log()
	if len(l.Attempts) != 1 || l.Attempts[0].Token == "" || strings.Contains(l.Attempts[0].Path, l.Attempts[0].Token) {
		t.Errorf("attempts: %+v", l.Attempts)
	}
	if st := a.State(); st.Phase != client.Connected || st.ConnectionID != l.Attempts[0].ID || st.Err != nil {
		t.Errorf("the state is %+v", st)
	}
}

func refuseScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.Refuse(clienttest.RefuseOptions{Code: "PERMISSION_DENIED", Times: 1}))
	_, err := client.Dial(within(t), s.URL, options(t, s, "ann", client.Options{}))
	expectCode(t, err, errors.PermissionDenied)
	if n := len(s.Log().Attempts); n != 1 {
		t.Errorf("%d attempts after 403", n)
	}

	ok(t, s.ClearLog(struct{}{}))
	ok(t, s.Refuse(clienttest.RefuseOptions{Code: "UNAUTHENTICATED", Times: 1}))
	act(t, s, "ann", client.Options{}).request("echo", payload{})
	if l := s.Log(); len(l.Attempts) != 2 || l.Attempts[0].Token == l.Attempts[1].Token {
		t.Errorf("attempts after 401: %+v", l.Attempts)
	}
	ok(t, s.Refuse(clienttest.RefuseOptions{Code: "UNAUTHENTICATED"}))
	_, err = client.Dial(within(t), s.URL, options(t, s, "", client.Options{Token: func(context.Context) (string, error) { return "same", nil }}))
	expectCode(t, err, errors.Unauthenticated)

	ok(t, s.ClearLog(struct{}{}))
	ok(t, s.Refuse(clienttest.RefuseOptions{Code: "RESOURCE_EXHAUSTED", Times: 1, RetryAfterMs: 300}))
	act(t, s, "ann", client.Options{}).request("echo", payload{})
	if l := s.Log(); len(l.Attempts) != 2 || l.Attempts[1].AtMs < l.Attempts[0].AtMs+300 {
		t.Errorf("attempts after 429: %+v", l.Attempts)
	}

	// What waits fails when the client ends.
	a := act(t, s, "ann", client.Options{})
	ok(t, s.Stop(clienttest.StopOptions{Kill: true}))
	a.awaitPhase(client.Waiting)
	waiting := a.start(within(t), "echo", payload{})
	ok(t, s.Refuse(clienttest.RefuseOptions{Code: "PERMISSION_DENIED"}))
	ok(t, s.Start(clienttest.StartOptions{}))
	expectCode(t, <-waiting, errors.PermissionDenied)
}

func expireScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.Token(clienttest.TokenMode{TTLMs: 10_000})) // enough for a busy machine to connect
	a := act(t, s, "", client.Options{Token: fetch(s)})
	ok(t, s.Token(clienttest.TokenMode{Mode: "fail"}))
	a.awaitPhase(client.Waiting)
	eventually(t, "two requests for a token fail", func() bool { return tokens(s, "fail") >= 2 })
	ok(t, s.Token(clienttest.TokenMode{Mode: "ok"}))
	a.awaitConnections(2)
	if user, err := client.Request[string](within(t), a.Client, "whoami", nil); err != nil || user != "ann" {
		t.Errorf("got %q, %v", user, err)
	}
	l := s.Log()
	if len(l.Attempts) != 2 || l.Attempts[0].Token == l.Attempts[1].Token || len(l.Closes) == 0 || l.Closes[0].Code != 4401 {
		t.Errorf("attempts %+v, closes %+v", l.Attempts, l.Closes)
	}
}

// tokens counts the requests for a token that were answered in a mode.
func tokens(s *clienttest.Server, mode string) (n int) {
	for _, call := range s.Log().Tokens {
		if call.Mode == mode {
			n++
		}
	}
	return n
}

func renewScenario(t *testing.T) {
	takesTime(t)
	const life = 30 * time.Second // a busy machine has half of it to renew
	s := clienttest.Start(t, clienttest.Options{ExpiryNoticeMs: int(life.Milliseconds())})
	ok(t, s.Token(clienttest.TokenMode{TTLMs: int(life.Milliseconds())}))
	a := act(t, s, "", client.Options{Token: fetch(s)})
	eventually(t, "two renewals, and the end of the first token", func() bool {
		a.request("echo", payload{})
		l := s.Log()
		return len(received(l, "$ws:renew")) >= 2 && l.NowMs > l.Attempts[0].AtMs+float64(life.Milliseconds())
	})
	if n := len(s.Log().Attempts); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func tokenScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{NeedToken: true})
	ok(t, s.Token(clienttest.TokenMode{Mode: "fail"}))
	a, dialled := dialling(t, s, "", client.Options{Token: fetch(s), ConnectTimeout: 300 * time.Millisecond})
	for _, mode := range []string{"fail", "garbage", "drop", "hang"} {
		ok(t, s.Token(clienttest.TokenMode{Mode: mode}))
		eventually(t, "two requests for a token", func() bool { return tokens(s, mode) >= 2 })
	}
	if l := s.Log(); len(l.Attempts) > 0 {
		t.Errorf("attempts without a token: %+v", l.Attempts)
	}
	ok(t, s.Token(clienttest.TokenMode{Mode: "ok"}))
	ok(t, <-dialled)
	a.request("echo", payload{})
	a.close()
}

func doorFullScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.Door(clienttest.DoorOptions{MaxPerUser: 1}))
	first := act(t, s, "ann", client.Options{})
	second, dialled := dialling(t, s, "ann", client.Options{})
	eventually(t, "the second one is refused", func() bool { l := s.Log(); return len(l.Attempts) >= 2 && l.Attempts[1].Outcome != "" })
	first.close()
	ok(t, <-dialled)
	t.Cleanup(second.close)
	second.request("echo", payload{})
	attempts := s.Log().Attempts[1:]
	for i := range attempts[1:] { // clienttest's door advises half a second
		if waited := attempts[i+1].AtMs - attempts[i].AtMs; waited < 500 {
			t.Errorf("attempt %d came after %v ms", i+1, waited)
		}
	}
	if len(attempts) < 2 {
		t.Errorf("attempts: %+v", attempts)
	}
}

func banScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	ok(t, s.Ban(clienttest.BanOptions{Ms: 800}))
	a.awaitConnections(2)
	l := s.Log()
	if waited := l.Attempts[1].AtMs - l.Closes[0].AtMs; waited < 800 || len(l.Attempts) != 2 {
		t.Errorf("%d attempts, the second after %v ms", len(l.Attempts), waited)
	}
	a.close()

	ok(t, s.Raw(clienttest.RawOptions{Steps: []clienttest.Step{
		{Expect: "echo"}, {Close: 4429, Reason: `{"retryAfterMs":null}`},
	}}))
	a = act(t, s, "ann", client.Options{})
	_, err := client.Request[payload](within(t), a.Client, "echo", payload{})
	if !errors.Is(err, client.ErrUnknownOutcome) {
		t.Errorf("the open request: %v", err)
	}
	a.expectEnd(4429)
}

// expectEnd waits until the client has ended because of a close code.
func (a *actor) expectEnd(code errors.CloseCode) {
	a.t.Helper()
	end, err := a.Wait(within(a.t), func(s client.State) bool { return s.Phase == client.Closed || s.Connections > 1 })
	if err != nil || end.Phase != client.Closed {
		a.t.Fatalf("the client does not end: %v, %+v", err, end)
	}
	_, err = client.Request[payload](within(a.t), a.Client, "echo", payload{})
	for _, err := range []error{end.Err, err} {
		if closed, is := errors.AsType[*client.CloseError](err); !is || closed.Code != code {
			a.t.Errorf("the error is %v, want one of the close code %d", err, code)
		}
	}
}

func kickedScenario(t *testing.T) {
	const (
		ends = iota
		comes
		waits // 300 ms
	)
	for _, k := range []struct {
		code   int
		reason string
		then   int
	}{
		{1000, "", comes}, {1001, "", comes}, {1001, `{"retryAfterMs":300}`, waits}, {1002, "", ends}, {1007, "", ends},
		{1008, "", ends}, {1009, `{"retryAfterMs":null}`, comes}, {1011, "", comes}, {1013, "", comes}, {1013, `{"retryAfterMs":300}`, waits},
		{1013, `{"retryAfterMs":null}`, comes}, {4000, "", comes}, {4008, "", comes}, {4401, "", comes}, {4403, "", ends},
		{4429, "", comes}, {4429, `{"retryAfterMs":300}`, waits}, {4429, `{"retryAfterMs":null}`, ends}, {4999, "", comes},
	} {
		t.Run(fmt.Sprint(k.code, " ", k.reason), func(t *testing.T) {
			s := clienttest.Start(t, clienttest.Options{})
			ok(t, s.Raw(clienttest.RawOptions{Steps: []clienttest.Step{{Expect: "count"}, {Close: k.code, Reason: k.reason}}}))
			a := act(t, s, "ann", client.Options{})
			_, err := client.Request[payload](within(t), a.Client, "count", payload{ID: "open"})
			if closed, is := errors.AsType[*client.CloseError](err); !errors.Is(err, client.ErrUnknownOutcome) || !is || int(closed.Code) != k.code || closed.Reason != k.reason {
				t.Errorf("the open request: %v", err)
			}
			if k.then == ends {
				a.expectEnd(errors.CloseCode(k.code))
				return
			}
			a.awaitConnections(2)
			a.request("echo", payload{})
			l := s.Log()
			if waited := l.Attempts[1].AtMs - l.Closes[0].AtMs; k.then == waits && waited < 300 {
				t.Errorf("the next attempt came after %v ms", waited)
			}
			if k.code == 4401 && l.Attempts[0].Token == l.Attempts[1].Token {
				t.Error("the token is the same")
			}
			if l.Executions["open"] != 0 {
				t.Error("the open request was sent again")
			}
		})
	}
	t.Run("with the same message", func(t *testing.T) { // not even with a key
		for _, code := range []int{1009, 1013} {
			s := clienttest.Start(t, clienttest.Options{}) // a late connection would take the steps of the next code
			ok(t, s.Raw(clienttest.RawOptions{Steps: []clienttest.Step{{Expect: "count"}, {Close: code, Reason: `{"retryAfterMs":null}`}}}))
			a := act(t, s, "ann", client.Options{})
			_, err := client.Request[payload](within(t), a.Client, "count", payload{}, client.MessageOptions{IdempotencyKey: "k"})
			if !errors.Is(err, client.ErrUnknownOutcome) {
				t.Errorf("%d: %v", code, err)
			}
		}
	})
}

func senselessAdviceScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	for _, n := range []string{"0", "-1", "1e308", `"5"`, "NaN", "[]", "{}", "true", "99999999999999999999", "9223372036854775807", "1.5"} {
		ok(t, s.ClearLog(struct{}{}))
		ok(t, s.Raw(clienttest.RawOptions{Times: 3, Steps: []clienttest.Step{
			{Expect: "echo"},
			{Send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"m","retryable":true,"retryAfterMs":` + n + `}}`},
			{Close: 1013, Reason: `{"retryAfterMs":` + n + `}`},
		}}))
		a := act(t, s, "ann", client.Options{})
		_, err := client.Request[payload](within(t), a.Client, "echo", payload{}, client.MessageOptions{WaitOnLimit: true})
		if n != "NaN" { // which is no JSON: the frame cannot be read
			expectCode(t, err, errors.ResourceExhausted)
		}
		for a.State().Connections < 4 {
			_, _ = client.Request[payload](within(t), a.Client, "echo", payload{}, client.MessageOptions{WaitOnLimit: true})
		}
		a.awaitConnections(4)
		a.request("echo", payload{})
		a.close()
		if l := s.Log(); len(l.Attempts) != 4 {
			t.Errorf("%s: %d attempts", n, len(l.Attempts))
		}
	}
}

func refusedByTCPScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.Refuse(clienttest.RefuseOptions{TCP: true}))
	// TestPausesWhileNoServerListens has the pauses.
	a, dialled := dialling(t, s, "ann", client.Options{})
	eventually(t, "some attempts are refused", func() bool { return len(s.Log().Attempts) >= 10 })
	ok(t, s.Resume(struct{}{}))
	ok(t, <-dialled)
	t.Cleanup(a.close)
	a.request("echo", payload{})
}

func hangingHandshakeScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	ok(t, s.Stall(clienttest.StallOptions{}))
	a, dialled := dialling(t, s, "ann", client.Options{ConnectTimeout: 200 * time.Millisecond})
	eventually(t, "the first one is given up", func() bool { return len(s.Log().Attempts) >= 2 })
	ok(t, s.Resume(struct{}{}))
	ok(t, <-dialled)
	t.Cleanup(a.close)
	a.request("echo", payload{})
	if n := len(s.Log().Attempts); n < 2 {
		t.Errorf("%d attempts", n)
	}
}

func stormScenario(t *testing.T) {
	takesTime(t)
	s := clienttest.Start(t, clienttest.Options{})
	const clients, first = 30, 1200 // ms
	var all []*actor
	for n := range clients {
		all = append(all, act(t, s, fmt.Sprint("user", n), client.Options{MinBackoff: first * time.Millisecond, MaxBackoff: 2400 * time.Millisecond}))
	}
	ok(t, s.ClearLog(struct{}{}))
	ok(t, s.Stop(clienttest.StopOptions{Kill: true}))
	var planned []time.Time // not when they are made: a machine that stands still makes several of them at once
	for _, a := range all {
		planned = append(planned, a.awaitPhase(client.Waiting).Next)
	}
	if spread := slices.MaxFunc(planned, time.Time.Compare).Sub(slices.MinFunc(planned, time.Time.Compare)); spread < first/2*time.Millisecond {
		t.Errorf("%d clients connect again within %v", clients, spread)
	}
	ok(t, s.Start(clienttest.StartOptions{}))
	for _, a := range all {
		a.awaitConnections(2)
	}
	l := s.Log()
	started := time.Now().Add(-time.Duration(l.NowMs * float64(time.Millisecond))) // at the earliest
	for i, a := range all {
		n := slices.IndexFunc(l.Attempts, func(try clienttest.Attempt) bool { return try.ID == a.State().ConnectionID })
		if n < 0 {
			t.Errorf("client %d has no attempt in %+v", i, l.Attempts)
		} else if at := started.Add(time.Duration(l.Attempts[n].AtMs * float64(time.Millisecond))); at.Before(planned[i]) {
			t.Errorf("client %d connects at %v, before %v", i, at, planned[i])
		}
	}
}

func closeScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	now, cancel := context.WithCancel(context.Background())
	cancel()

	// With a request open, which has time, and then has none.
	a := act(t, s, "ann", client.Options{})
	open := a.start(within(t), "slow", payload{ID: "short", Ms: 300})
	eventually(t, "slow to run", func() bool { return s.Log().Executions["short"] == 1 })
	ok(t, a.Close(within(t)))
	ok(t, <-open)
	if _, err := client.Request[payload](within(t), a.Client, "echo", payload{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	ok(t, a.Close(within(t)))
	eventually(t, "a close frame", func() bool {
		l := s.Log()
		return len(l.Closes) > 0 && l.Closes[0].Code == 1000 && l.Closes[0].Dir == "up"
	})

	a = act(t, s, "ann", client.Options{})
	open = a.start(within(t), "slow", payload{ID: "long", Ms: 60_000})
	eventually(t, "slow to run", func() bool { return s.Log().Executions["long"] == 1 })
	if err := a.Close(now); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-open; !errors.Is(err, client.ErrUnknownOutcome) {
		t.Errorf("the open request: %v", err)
	}

	// While it waits, with a queue.
	a = act(t, s, "ann", client.Options{})
	ok(t, s.Stop(clienttest.StopOptions{Kill: true}))
	a.awaitPhase(client.Waiting)
	var queued []<-chan error
	for range 5 {
		queued = append(queued, a.start(within(t), "count", payload{ID: "queued"}))
	}
	_ = a.Close(now)
	for _, failed := range queued {
		if err := <-failed; !errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrUnknownOutcome) {
			t.Errorf("a queued request: %v", err)
		}
	}

	// While it connects.
	ok(t, s.Start(clienttest.StartOptions{}))
	ok(t, s.Stall(clienttest.StallOptions{}))
	n := len(s.Log().Attempts)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := client.Dial(ctx, s.URL, options(t, s, "ann", client.Options{})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial: %v", err)
	}
	ok(t, s.Resume(struct{}{}))
	a = act(t, s, "ann", client.Options{})
	// TestADialThatHasEndedTriesNoMore waits for an hour.
	if l := s.Log(); len(l.Attempts) > n+2 || l.Executions["queued"] != 0 {
		t.Errorf("%d attempts by a Dial that has ended at the first, executed %v", len(l.Attempts)-n-1, l.Executions)
	}
	var twice sync.WaitGroup
	for range 2 {
		twice.Go(func() { ok(t, a.Close(within(t))) })
	}
	twice.Wait()
}
