package client_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
)

const history = "history:a"

func publish(t testing.TB, s *clienttest.Server, n int) {
	t.Helper()
	_, err := s.Publish(clienttest.PublishOptions{Topic: history, N: n})
	ok(t, err)
}

func resumeScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{MinBackoff: 300 * time.Millisecond})
	a.join(history)
	publish(t, s, 5)
	a.expect(t, said(1, 5)...)
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	publish(t, s, 5)
	a.expect(t, said(1, 10)...)
	a.request("echo", payload{})
	resumes := received(s.Log(), "$ws:resume")
	if len(resumes) != 1 {
		t.Fatalf("resumed with %+v", resumes)
	}
	var last clienttest.Frame
	for _, f := range s.Log().Sent {
		if f.Conn == 1 && f.Pos != "" {
			last = f
		}
	}
	if !strings.Contains(resumes[0].Text, `"`+last.Pos+`"`) {
		t.Errorf("the last position is %s, resumed with %s", last.Pos, resumes[0].Text)
	}
	a.Forget(history)
	a.join("history:left")
	a.request("leave", payload{Topic: "history:left"})
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	a.awaitConnections(3)
	a.request("echo", payload{})
	if n := len(received(s.Log(), "$ws:resume")); n != 1 {
		t.Errorf("%d resumes: what is forgotten, or was left, is resumed", n)
	}
}

// An inbox is a topic that the server subscribes to by itself whenever a connection is opened.
func inboxScenario(t *testing.T) {
	for name, all := range map[string]bool{"from now on": false, "from the oldest": true} {
		t.Run(name, func(t *testing.T) {
			s := clienttest.Start(t, clienttest.Options{Inbox: history, All: all})
			a := act(t, s, "ann", client.Options{})
			a.request("echo", payload{})
			const rounds, each = 5, 6
			for range rounds {
				publish(t, s, each/2)
				connections := a.State().Connections
				ok(t, s.CutNow(clienttest.CutNowOptions{}))
				for range each / 2 { // while it is away, comes back and resumes
					publish(t, s, 1)
				}
				a.awaitConnections(connections + 1)
			}
			publish(t, s, 1)
			a.expect(t, said(1, rounds*each+1)...)
		})
	}
}

func gapScenario(t *testing.T) {
	// away has what is done while the client is away.
	away := func(t *testing.T, do func(*clienttest.Server)) *actor {
		s := clienttest.Start(t, clienttest.Options{})
		a := act(t, s, "ann", client.Options{})
		a.join(history)
		publish(t, s, 3)
		a.expect(t, said(1, 3)...)
		do(s)
		a.awaitConnections(2)
		a.request("echo", payload{})
		publish(t, s, 1)
		eventually(t, "the last event", func() bool {
			all := a.all()
			return strings.HasPrefix(all[len(all)-1], "said 1") || len(all) == 5
		})
		return a
	}
	t.Run("trimmed", func(t *testing.T) {
		a := away(t, func(s *clienttest.Server) {
			ok(t, s.Refuse(clienttest.RefuseOptions{TCP: true}))
			ok(t, s.CutNow(clienttest.CutNowOptions{}))
			_, err := s.Trim(clienttest.TrimOptions{Topic: history})
			ok(t, err)
			ok(t, s.Resume(struct{}{}))
		})
		a.expect(t, append(said(1, 3), "gap trimmed", "said 105")...)
	})
	t.Run("lost", func(t *testing.T) {
		a := away(t, func(s *clienttest.Server) {
			ok(t, s.Restart(clienttest.RestartOptions{StopOptions: clienttest.StopOptions{Kill: true}, StartOptions: clienttest.StartOptions{Lose: true}}))
		})
		a.expect(t, append(said(1, 3), "gap epoch", "said 4")...)
	})
	script := func(t *testing.T, answers ...string) *actor {
		s := clienttest.Start(t, clienttest.Options{})
		steps := []clienttest.Step{{Accept: true}}
		for _, answer := range answers {
			steps = append(steps, clienttest.Step{Expect: "$ws:resume"}, clienttest.Step{Send: `{"type":"$ws:resumed","meta":{"correlationId":"{{id}}"},"payload":{"topics":[` + answer + `]}}`})
		}
		a := act(t, s, "ann", client.Options{})
		a.join(history)
		publish(t, s, 1)
		a.expect(t, "said 1")
		ok(t, s.Raw(clienttest.RawOptions{Steps: append(steps, clienttest.Step{Send: `{"type":"said","payload":{"n":99}}`}, clienttest.Step{SleepMs: 60_000})}))
		ok(t, s.CutNow(clienttest.CutNowOptions{}))
		return a
	}
	t.Run("denied", func(t *testing.T) {
		script(t, `{"resumed":false,"reason":"denied"}`).expect(t, "said 1", "gap denied", "said 99")
	})
	t.Run("unavailable", func(t *testing.T) {
		script(t, `{"topic":"history:a","resumed":false,"reason":"unavailable"}`, `{"topic":"history:a","resumed":true,"pos":"p","ticket":"t"}`).
			expect(t, "said 1", "said 99")
	})
	t.Run("an answer that makes no sense", func(t *testing.T) {
		script(t, `7`).expect(t, "said 1", "gap denied", "said 99")
	})
}

func duplicateAnswersScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	for _, typ := range []string{"echo.reply", "said", "$ws:rpc-progress"} {
		ok(t, s.Alter(clienttest.Alter{Type: typ, Do: "twice", Times: -1}))
	}
	for n := range 5 {
		if got := a.request("echo", payload{N: n}); got.N != n {
			t.Errorf("got %+v", got)
		}
	}
	a.join(history)
	publish(t, s, 5)
	a.expect(t, said(1, 5)...)
	call := client.Follow[payload, payload](within(t), a.Client, "progress", payload{N: 3})
	seen := map[int]bool{}
	for p, err := range call.Progress() {
		ok(t, err)
		seen[p.N] = true
	}
	if _, err := call.Reply(); err != nil || len(seen) != 3 {
		t.Errorf("progress %v, %v", seen, err)
	}
	a.expect(t, said(1, 5)...)
}

func redisAwayScenario(t *testing.T) {
	takesTime(t)
	s := clienttest.Start(t, clienttest.Options{Redis: true})
	a := act(t, s, "ann", client.Options{})
	a.join(history)
	publish(t, s, 2)
	a.expect(t, said(1, 2)...)
	ok(t, s.StopRedis(struct{}{}))
	for _, typ := range []string{"say", "count"} {
		_, err := client.Request[payload](within(t), a.Client, typ, payload{ID: typ, Topic: history}, client.MessageOptions{IdempotencyKey: "key"})
		if e := expectCode(t, err, errors.Unavailable); !e.Retryable() {
			t.Errorf("%s: %+v", typ, e)
		}
	}
	ok(t, s.StartRedis(struct{}{}))
	eventually(t, "publishing to work", func() bool {
		_, err := s.Publish(clienttest.PublishOptions{Topic: history})
		return err == nil
	})
	eventually(t, "the gap", func() bool { return slices.Contains(a.all(), "gap epoch") })
	p, err := s.Publish(clienttest.PublishOptions{Topic: history})
	ok(t, err)
	last := fmt.Sprint("said ", p.To)
	eventually(t, "the last event", func() bool { return slices.Contains(a.all(), last) })
	all := a.all()
	gap := slices.Index(all, "gap epoch") // the events between what was missed and the last one are not missed
	if after := all[gap+1:]; gap != 2 || !slices.Equal(after, said(p.To-len(after)+1, p.To)) {
		t.Errorf("received %v", all)
	}
}

func serverRestartScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	restarted := make(chan error, 1)
	unknown := 0
	for n := 0; n < 20 || a.State().Connections < 2; n++ {
		id := fmt.Sprint("count ", n)
		if n == 5 {
			go func() {
				restarted <- s.Restart(clienttest.RestartOptions{StopOptions: clienttest.StopOptions{Kill: true}, DownMs: 300})
			}()
		}
		_, err := client.Request[payload](within(t), a.Client, "count", payload{ID: id})
		if errors.Is(err, client.ErrUnknownOutcome) {
			unknown++
		} else if ok(t, err); s.Log().Executions[id] != 1 {
			t.Errorf("%s was executed %d times", id, s.Log().Executions[id])
		}
	}
	ok(t, <-restarted)
	for id, n := range s.Log().Executions {
		if n > 1 {
			t.Errorf("%s was executed %d times", id, n)
		}
	}
	a.awaitConnections(2)
	if unknown > 1 {
		t.Errorf("%d unknown outcomes, %+v", unknown, a.State())
	}
}

func drainScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	open := a.start(within(t), "slow", payload{ID: "slow", Ms: 200})
	eventually(t, "slow to run", func() bool { return s.Log().Executions["slow"] == 1 })
	ok(t, s.Drain(clienttest.DrainOptions{}))
	ok(t, <-open)
	a.awaitConnections(2)
	ok(t, s.ClearLog(struct{}{}))
	ms := 700.0
	ok(t, s.Drain(clienttest.DrainOptions{RetryAfterMs: &ms}))
	_, err := a.Wait(within(t), func(s client.State) bool { return s.Phase != client.Connected || s.Connections > 2 })
	ok(t, err) // before, the request could cross the close
	a.request("count", payload{ID: "count"})
	l := s.Log()
	down := slices.IndexFunc(l.Closes, func(c clienttest.Close) bool { return c.Dir == "down" && c.Code == 1001 })
	if down < 0 || len(l.Attempts) != 1 || l.Attempts[0].AtMs < l.Closes[down].AtMs+ms || l.Executions["count"] != 1 {
		t.Errorf("closes %+v, attempts %+v, executed %v", l.Closes, l.Attempts, l.Executions)
	}
}

func slowNetworkScenario(t *testing.T) {
	takesTime(t)
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{PingInterval: 3 * time.Second})
	ok(t, s.Slow(clienttest.SlowOptions{BytesPerSecond: 2000, LatencyMs: 50}))
	var all []<-chan error
	for range 10 {
		all = append(all, a.start(within(t), "echo", payload{Text: strings.Repeat("x", 500)}))
	}
	a.join(history)
	publish(t, s, 10)
	for _, failed := range all {
		ok(t, <-failed)
	}
	a.expect(t, said(1, 10)...)
	ok(t, s.Resume(struct{}{}))
	if n := len(s.Log().Attempts); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func zombieScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{PingInterval: 200 * time.Millisecond, PongTimeout: 300 * time.Millisecond})
	ok(t, s.Zombie(struct{}{}))
	a.request("count.once", payload{ID: "once"}, client.MessageOptions{IdempotencyKey: "key"})
	if n := s.Log().Executions["once"]; n != 1 {
		t.Errorf("executed %d times", n)
	}
}

func idleZombieScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{PingInterval: 200 * time.Millisecond, PongTimeout: 300 * time.Millisecond})
	eventually(t, "the topic to be joined", func() bool { // a busy machine may be too late for a pong, too
		_, err := client.Request[payload](within(t), a.Client, "join", payload{Topic: history})
		return err == nil
	})
	ok(t, s.Zombie(struct{}{}))
	publish(t, s, 1)
	a.expect(t, "said 1")
}

func askScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	withdrawn := make(chan struct{})
	a := act(t, s, "ann", client.Options{})
	ask := func(o clienttest.AskOptions) clienttest.Answered {
		t.Helper()
		all, err := s.Ask(o)
		ok(t, err)
		return all[0]
	}
	if got := ask(clienttest.AskOptions{}); got.Code != "UNIMPLEMENTED" {
		t.Errorf("without a handler: %+v", got)
	}
	client.Answer(a.Client, "confirm", func(ctx context.Context, q payload) (clienttest.Answer, error) {
		switch q.Text {
		case "fail":
			return clienttest.Answer{}, errors.Code("NOT_NOW").New("not now")
		case "panic":
			panic("as asked")
		case "wait":
			<-ctx.Done()
			close(withdrawn)
		}
		return clienttest.Answer{Yes: true}, nil
	})
	if got, err := client.Request[clienttest.Answer](within(t), a.Client, "ask", payload{Text: "yes?"}); err != nil || !got.Yes {
		t.Errorf("ask: %+v, %v", got, err)
	}
	for text, want := range map[string]clienttest.Answered{
		"yes?": {User: "ann", Answer: clienttest.Answer{Yes: true}}, "fail": {User: "ann", Code: "NOT_NOW"}, "panic": {User: "ann", Code: "UNKNOWN"},
	} {
		if got := ask(clienttest.AskOptions{Text: text}); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := ask(clienttest.AskOptions{Text: "wait", TimeoutMs: 700}); got.Code != "DEADLINE_EXCEEDED" {
		t.Errorf("got %+v", got)
	}
	<-withdrawn
	a.request("echo", payload{})
	if n := len(received(s.Log(), "$ws:answer")); n != 5 {
		t.Errorf("%d answers: one was late", n)
	}
	if f := a.failures(); len(f) != 1 || !strings.Contains(f[0].Error(), "as asked") {
		t.Errorf("reported %v", f)
	}
}

// cutScenario cuts at each byte of each frame of a small conversation.
func cutScenario(t *testing.T, dir string) {
	takesTime(t)
	conversation := func(s *clienttest.Server, a *actor, round string) (outcomes map[string]error) {
		outcomes = map[string]error{}
		for _, typ := range []string{"echo", "join", "count", "count.once"} {
			o := client.MessageOptions{}
			if typ == "count.once" {
				o.IdempotencyKey = round
			}
			id := typ + " " + round
			_, outcomes[id] = client.Request[payload](within(t), a.Client, typ, payload{ID: id, Topic: history}, o)
		}
		publish(t, s, 3)
		return outcomes
	}
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	conversation(s, a, "without a cut")
	l, published := s.Log(), 3
	total := 0
	for _, f := range slices.Concat(l.Sent, l.Received) {
		total += f.Bytes
	}
	a.expect(t, said(1, 3)...)
	for at := range total / 2 {
		round := fmt.Sprint(dir, " ", at)
		ok(t, s.Cut(clienttest.Cut{Dir: dir, After: &at, How: []string{"reset", "fin"}[at%2]}))
		outcomes := conversation(s, a, round)
		published += 3
		ok(t, s.Resume(struct{}{}))
		executions := s.Log().Executions
		for _, id := range slices.Sorted(maps.Keys(outcomes)) {
			err, keyed := outcomes[id], strings.HasPrefix(id, "count.once")
			if n := executions[id]; n > 1 || err == nil && n != 1 || err != nil && (keyed || !errors.Is(err, client.ErrUnknownOutcome)) {
				t.Fatalf("%s: executed %d times, %v", id, n, err)
			}
		}
		ok(t, s.ClearLog(struct{}{}))
	}
	a.request("echo", payload{})
	a.expect(t, said(1, published)...)
	t.Logf("%d connections", a.State().Connections)
}

// A topic that the client has left is not resumed, and what it missed of it is no gap when it joins again.
func TestATopicThatWasLeftIsNotResumed(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	a.join("history:kept")
	a.join(history)
	a.request("leave", payload{Topic: history})
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	a.awaitConnections(2)
	a.request("echo", payload{})
	resumes := received(s.Log(), "$ws:resume")
	if len(resumes) != 1 || strings.Count(resumes[0].Text, `"ticket"`) != 1 {
		t.Errorf("resumed with %+v, want the one topic that was not left", resumes)
	}
	a.join(history)
	a.request("leave", payload{Topic: history})
	publish(t, s, 3)
	a.join(history)
	publish(t, s, 1)
	a.expect(t, "said 4")
}
