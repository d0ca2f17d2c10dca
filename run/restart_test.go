package run_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// A run that is cut by the end of its server is begun again by another one, behind its last checkpoint: all words are
// in its text once, in their order. After two restarts it is lost.
func TestRestart(t *testing.T) {
	for name, test := range map[string]struct {
		ends  int // of servers
		state run.State
	}{"done": {1, run.Done}, "again": {2, run.Done}, "too often": {3, run.Lost}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := adapters.Backend{
					Broker: memory.NewBroker(), Presence: memory.NewPresence(),
					Limits: memory.NewStore(),
				}
				type server struct {
					r    *router.Router
					runs *run.Runs
					c    *routertest.Client
				}
				var servers []server
				for range test.ends + 1 {
					r := router.New(router.Options{Backend: shared, Authenticate: authenticate})
					runs, err := run.New(r)
					if err != nil {
						t.Fatal(err)
					}
					run.Handle(runs, "ask", inPairs, run.HandleOptions{Restartable: true})
					servers = append(
						servers, server{r, runs, routertest.New(t, r).Dial(routertest.DialOptions{Token: "ann.1"})},
					)
				}
				text := "a b c d e f g h i j k l m n o p"
				id := begin(servers[0].c, text)
				now, cancel := context.WithCancel(t.Context())
				cancel()
				restarted := int64(0)
				for range test.ends { // of the server that has it
					time.Sleep(350 * time.Millisecond)
					n := slices.IndexFunc(servers, func(s server) bool { return len(s.runs.Here()) > 0 })
					_ = servers[n].r.Shutdown(now)
					restarted += servers[n].runs.Stats().Types[0].Restarted
					servers = slices.Delete(servers, n, n+1)
				}
				time.Sleep(2 * time.Second)
				v := attach(t, servers[0].c, id)
				if got := v.text.String(); v.end == nil || v.end.State != test.state ||
					got != text+" " && test.state == run.Done || !strings.HasPrefix(text, strings.TrimSpace(got)) {
					t.Errorf("%q, %+v", got, v.end)
				}
				restarted += servers[0].runs.Stats().Types[0].Restarted
				if restarted != int64(min(test.ends, 2)) {
					t.Errorf("%d restarts", restarted)
				}
			})
		})
	}
}

// inPairs writes words, and notes a checkpoint behind each pair.
func inPairs(ctx context.Context, q Ask, w *run.Writer) error {
	words, n := strings.Fields(q.Text), 0
	if _, err := w.Resume(&n); err != nil {
		return err
	}
	for ; n < len(words); n++ {
		if time.Sleep(100 * time.Millisecond); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := w.Text(words[n] + " ")
		if err == nil && n%2 == 1 {
			err = w.Checkpoint(n + 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A run whose process is killed, or stands still and goes on later, is begun again by another process, and ends once. A
// message that comes in between is not lost, nor what it has not used of the budget.
func TestRestartOfAProcess(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, child *exec.Cmd) (after func()){
		"killed": func(t *testing.T, child *exec.Cmd) func() {
			kill(child)
			return func() {}
		},
		"stopped": func(t *testing.T, child *exec.Cmd) func() {
			if err := process.Stop(child.Process); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := process.Continue(child.Process); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			child := process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL()+" steps", "running")
			id := s.Do("LPOP", "runs").(string)
			first, second := serveOn(t, s.URL()), serveOn(t, s.URL())
			one, two := attach(t, first.Dial(), id), attach(t, second.Dial(), id)
			for range 3 {
				one.next()
			}
			after := end(t, child)
			for !one.anew {
				one.next()
			}
			after()
			for _, v := range []*viewer{one, two} {
				if text := v.watch(); v.end.State != run.Done || len(strings.Fields(text)) != 1000 || !counts(text) {
					t.Errorf("%+v: %q", v.end, text)
				}
			}
			c := second.Dial()
			if late := attach(t, c, id); late.text.String() != one.text.String() || late.attempt != two.attempt || late.attempt == 0 {
				t.Errorf("attempt %d: %q", late.attempt, late.text.String())
			}
			if charged := budget - budgetOf(c).Left; charged < one.spent || charged > one.spent+slice {
				t.Errorf("%d units were spent, and %d charged", one.spent, charged)
			}
		})
	}
}
