package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/runcheck"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// A run of one server is watched, steered and stopped from another one.
func TestRuns(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	serve := func() *routertest.Client {
		r := router.New(router.Options{Backend: open(t, s.URL(), postgres.Options{})})
		runs, err := run.New(r)
		if err != nil {
			t.Fatal(err)
		}
		run.Handle(runs, "echo", func(ctx context.Context, _ struct{}, w *run.Writer) error {
			for {
				data, err := w.Input(ctx)
				if err == nil {
					err = w.Text(string(data))
				}
				if err != nil {
					return err
				}
			}
		})
		return routertest.New(t, r).Dial()
	}
	one, two := serve(), serve()
	id := routertest.ExpectReply[run.Began](one.Request("echo", struct{}{})).Run
	for _, data := range []string{"1", "2"} {
		if !routertest.ExpectReply[run.Steered](
			two.Request("run.steer", run.Steer{Run: id, ID: data, Data: []byte(data)}),
		).Taken {
			t.Errorf("%s was not taken", data)
		}
	}
	if e := routertest.ExpectReply[run.End](two.Request("run.stop", run.Ref{Run: id})); e.State != run.Stopped {
		t.Errorf("stopped as %+v", e)
	}
	for _, c := range []*routertest.Client{one, two} {
		if w := routertest.ExpectReply[run.Whole](c.Request("run.attach", run.Ref{Run: id})); w.Text != "12" ||
			w.End == nil {
			t.Errorf("%+v", w)
		}
	}
}

// TestRunsProcess is a server with the runs of TestRunsWhileServersFail.
func TestRunsProcess(t *testing.T) {
	addr, url, _ := strings.Cut(os.Getenv("WSKIT_TEST_RUNS"), " ")
	if url == "" {
		t.Skip("run by TestRunsWhileServersFail")
	}
	r := router.New(router.Options{
		Backend:      open(t, url, postgres.Options{ProcessTimeout: 5 * time.Second}), // PostgreSQL begins within it
		HistoryCheck: 200 * time.Millisecond,
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
	})
	runs, err := run.New(r)
	if err != nil {
		t.Fatal(err)
	}
	runcheck.Handle(runs)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nserving")
	t.Fatal(http.Serve(l, r))
}

var runRounds = flag.Int("runs.rounds", 20, "how many runs TestRunsWhileServersFail watches to their end")

// Runs of servers that are killed and stopped, on a PostgreSQL that is killed and fails over to a replica without the
// last outputs: their clients have the same text, and the same end.
func TestRunsWhileServersFail(t *testing.T) {
	t.Parallel()
	report := runcheck.NewReport()
	for report.Rounds < *runRounds && !t.Failed() {
		runUntilAFailover(t, report)
	}
	t.Log(report)
	if len(report.Violations) > 0 || report.Ends["done"] == 0 || report.Losses == 0 {
		t.Fail()
	}
}

// runUntilAFailover has users begin runs while everything fails once.
func runUntilAFailover(t *testing.T, report *runcheck.Report) {
	primary := pgtest.Start(t)
	replica := primary.Replica(t)
	url := writableURL(primary, replica)
	var addrs []string
	var servers []*exec.Cmd
	start := func(addr string) *exec.Cmd {
		return process.StartTest(t, "TestRunsProcess", "WSKIT_TEST_RUNS="+addr+" "+url, "serving")
	}
	for range 3 {
		addrs = append(addrs, process.FreeAddr(t))
		servers = append(servers, start(addrs[len(addrs)-1]))
	}
	var losses atomic.Int64
	var users sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	defer end()
	for i := range 4 {
		u := &runcheck.User{
			Dial: runcheck.Dial(fmt.Sprint("user", i), addrs), Losses: losses.Load, Report: report,
			Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		}
		users.Go(func() { u.Rounds(ctx) })
	}
	pause := func() { poll.Within(time.Duration(rand.IntN(1000))*time.Millisecond, func() bool { return false }) }
	kill := func(server *exec.Cmd) {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	restart := func() {
		pause()
		primary.Kill()
		primary.Run()
		pause()
	}
	pause()
	kill(servers[0])
	servers[0] = start(addrs[0])
	restart()
	err := process.Stop(servers[1].Process)
	pause()
	if err = errors.Join(err, process.Continue(servers[1].Process)); err != nil {
		t.Fatal(err)
	}
	restart()
	losses.Add(1)
	replica.Kill()
	pause() // it lacks what comes now
	primary.Kill()
	replica.Run()
	replica.Promote()
	losses.Add(1)
	pause()
	end()
	users.Wait()
	for _, s := range servers {
		kill(s)
	}
}
