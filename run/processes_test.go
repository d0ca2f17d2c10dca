package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// processTimeout is short, so that the end of a process is soon seen, and longer than a busy machine stands still: a run
// whose output takes as long has failed.
const processTimeout = 10 * time.Second

// registry is the list of the runs that processes say they run.
const registry = "$ws:run:run:all"

// The budget of the runs, of which each number is a unit.
const (
	budget = 100_000_000
	slice  = 2000 // most runs reserve one alone, when they begin
)

// serveOn is a router with runs on a Redis, whose runs note that they begin, count up to a number, or until they are
// stopped, and say what they get.
func serveOn(t *testing.T, url string) *routertest.Server {
	t.Helper()
	s, _ := serverOn(t, url, processTimeout)
	return s
}

// serverOn is serveOn, and returns the router.
func serverOn(t *testing.T, url string, timeout time.Duration) (*routertest.Server, *router.Router) {
	t.Helper()
	return serverWith(t, url, redistest.Open(t, url, redis.Options{ProcessTimeout: timeout}))
}

// serverWith is serverOn with a backend on that Redis.
func serverWith(t *testing.T, url string, b adapters.Backend) (*routertest.Server, *router.Router) {
	t.Helper()
	r := router.New(router.Options{Backend: b, Authenticate: func(*http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: "ann"}, nil
	}})
	options, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	begun := goredis.NewClient(options)
	t.Cleanup(func() { _ = begun.Close() })
	runs, err := run.New(r, run.Options{
		AtOnce: -1, Budget: limit.FixedWindow{Limit: budget, Window: 10_000 * time.Hour}, Slice: slice,
	})
	if err != nil {
		t.Fatal(err)
	}
	run.Handle(runs, "count", func(ctx context.Context, most int, w *run.Writer) error {
		if err := begun.RPush(ctx, "begun", w.Info().ID).Err(); err != nil {
			return err
		}
		for n := 0; ; n++ {
			if n == most {
				return w.Done(n)
			}
			data, ok, err := w.TryInput()
			if err == nil && ok {
				err = w.Text(fmt.Sprintf("<%s>", data))
			}
			if err == nil {
				err = w.Spend(1)
			}
			if err == nil {
				err = w.Text(fmt.Sprint(n, " "))
			}
			if err != nil {
				return err
			}
			if poll.Within(5*time.Millisecond, func() bool { return ctx.Err() != nil }) {
				return context.Cause(ctx)
			}
		}
	})
	run.Handle(runs, "steps", func(ctx context.Context, most int, w *run.Writer) error {
		n := 0
		if _, err := w.Resume(&n); err != nil {
			return err
		}
		for ; n < most; n++ {
			err := w.Text(fmt.Sprint(n, " "))
			if err == nil && n%20 == 19 {
				err = w.Checkpoint(n + 1)
			}
			if err == nil {
				err = w.Spend(1)
			}
			if err != nil {
				return err
			}
			if poll.Within(5*time.Millisecond, func() bool { return ctx.Err() != nil }) {
				return context.Cause(ctx)
			}
		}
		return w.Done(n)
	}, run.HandleOptions{Restartable: true})
	s := routertest.New(t, r)
	t.Cleanup(func() { // those that count for ever
		now, cancel := context.WithCancel(context.Background())
		cancel()
		runs.Wait(now)
	})
	return s, r
}

// TestRunProcess is the other process: it begins a run, and says its id in Redis.
func TestRunProcess(t *testing.T) {
	url, typ, _ := strings.Cut(os.Getenv("WSKIT_TEST_RUN"), " ")
	if url == "" {
		t.Skip("run by the tests below")
	}
	most := 1000
	if typ == "" {
		typ, most = "count", -1
	}
	id := routertest.ExpectReply[run.Began](serveOn(t, url).Dial().Request(typ, most)).Run
	options, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := goredis.NewClient(options).RPush(t.Context(), "runs", id).Err(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nrunning")
	select {}
}

// TestCountingProcess is another one: it begins a run that counts until it is killed, and others all the time, and says
// their ids.
func TestCountingProcess(t *testing.T) {
	url := os.Getenv("WSKIT_TEST_RUNS")
	if url == "" {
		t.Skip("run by TestNoRunDiffers")
	}
	options, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c, ids := serveOn(t, url).Dial(), goredis.NewClient(options)
	begin := func(list string, most int) {
		id := routertest.ExpectReply[run.Began](c.Request("count", most)).Run
		if err := ids.RPush(t.Context(), list, id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	begin(endless(os.Getpid()), -1)
	fmt.Println("\nrunning")
	for {
		begin("runs", rand.IntN(300))
		poll.Within(50*time.Millisecond, func() bool { return false })
	}
}

// endless is the list of the run of a process that counts until it is killed.
func endless(pid int) string { return fmt.Sprint("endless of ", pid) }

// waves is how often a process is killed in TestNoRunDiffers.
const waves = 4

// Runs of processes of which one is killed again and again, watched by clients that come late, lose their connection
// and come back: each has one end, all clients have the same text, and it is what was written up to there. What they
// have not used of the budget is given back, but for that of the runs that [kill] counts.
func TestNoRunDiffers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	start := func() *exec.Cmd {
		return process.StartTest(t, "TestCountingProcess", "WSKIT_TEST_RUNS="+s.URL(), "running")
	}
	children := []*exec.Cmd{start(), start()}
	servers := []*routertest.Server{serveOn(t, s.URL()), serveOn(t, s.URL())}
	ends, kept := make(map[run.State]int), 0
	for wave := range waves {
		var viewers []*viewer
		list := endless(children[wave%2].Process.Pid) // one that is lost for certain; the others may be over
		for len(viewers) < 20 {
			id := s.Do("BLPOP", list, 0).([]any)[1].(string)
			viewers = append(viewers, attach(t, servers[len(viewers)%2].Dial(), id))
			list = "runs"
		}
		kept += killCharged(t, s, servers[0], children[wave%2], viewers[0].id)
		children[wave%2] = start()
		for i, v := range viewers {
			if i%3 == 0 && v.end == nil { // it reloads
				v.next()
				v.c.Vanish()
				v = attach(t, servers[(i+1)%2].Dial(), v.id)
			}
			text := v.watch()
			ends[v.end.State]++
			if v.end.State != run.Lost && v.end.State != run.Done || text != "" && !counts(text) {
				t.Errorf("%s: %+v, %q", v.id, v.end, text)
			}
			if done := string(v.end.Result); v.end.State == run.Done && done != fmt.Sprint(len(strings.Fields(text))) {
				t.Errorf("%s: %s words were written, and %q came", v.id, done, text)
			}
			for _, server := range servers {
				if again := attach(t, server.Dial(), v.id); again.text.String() != text || again.end == nil ||
					again.end.State != v.end.State {
					t.Errorf(
						"%s: later it is %+v, %q, and was %+v, %q", v.id, again.end, again.text.String(), v.end, text,
					)
				}
			}
		}
	}
	for _, child := range children {
		kept += killCharged(t, s, servers[0], child, s.Do("BLPOP", endless(child.Process.Pid), 0).([]any)[1].(string))
	}
	c, spent := servers[0].Dial(), int64(0)
	for _, id := range s.Do("LRANGE", "begun", 0, -1).([]any) {
		v := attach(t, c, id.(string))
		v.watch()
		if spent += v.spent; v.spent < int64(len(strings.Fields(v.text.String()))) {
			t.Errorf("%s: %d are spent for %q", v.id, v.spent, v.text.String())
		}
		routertest.ExpectReply[struct{}](c.Request("run.detach", run.Ref{Run: v.id}))
	}
	charged := func() int64 { return budget - budgetOf(c).Left }
	poll.Until(t, "the budget to be given back", func() bool { return charged()-spent <= int64(slice*kept) })
	t.Logf("the ends were %v; %d units were spent, and %d charged: at most %d slices more", ends, spent, charged(), kept)
	if charged() < spent {
		t.Errorf("%d units were spent, and %d charged", spent, charged())
	}
	if ends[run.Lost] == 0 || ends[run.Done] == 0 {
		t.Errorf("the ends were %v", ends)
	}
}

// kill kills a process, and waits until it is gone.
func kill(child *exec.Cmd) {
	_ = child.Process.Kill()
	_ = child.Wait()
}

// killCharged kills the process of a run, and returns of how many runs a slice may stay charged: the one that the
// process was about to begin, and those that were done, and are still registered because their budget is given back
// after that.
func killCharged(t *testing.T, s *redistest.Server, on *routertest.Server, child *exec.Cmd, id string) (kept int) {
	t.Helper()
	kill(child)
	b, c := redistest.Open(t, s.URL(), redis.Options{}), on.Dial()
	registered, err := b.Presence.Members(t.Context(), registry)
	if err != nil {
		t.Fatal(err)
	}
	process, _, _ := strings.Cut(id, "-")
	begun := s.Do("LRANGE", "begun", 0, -1).([]any)
	for _, m := range registered {
		if !strings.HasPrefix(m.ID, process+"-") || !slices.Contains(begun, any(m.ID)) {
			continue
		}
		if v := attach(t, c, m.ID); v.end != nil && v.end.State == run.Done {
			kept++
		}
		routertest.ExpectReply[struct{}](c.Request("run.detach", run.Ref{Run: m.ID}))
	}
	return kept + 1
}

// counts reports whether a text is what the handler writes, without the messages.
func counts(text string) bool {
	for n, word := range strings.Fields(text) {
		if _, after, ok := strings.Cut(word, ">"); ok {
			word = after
		}
		if word != fmt.Sprint(n) {
			return false
		}
	}
	return text != ""
}

// Another process watches a run, gives it messages and stops it.
func TestARunOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_ = process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL(), "running")
	id := s.Do("LPOP", "runs").(string)
	c := serveOn(t, s.URL()).Dial()
	v := attach(t, c, id)
	for range 3 {
		v.next()
	}
	if !routertest.ExpectReply[run.Steered](
		c.Request("run.steer", run.Steer{Run: id, ID: "m", Data: json.RawMessage("7")}),
	).Taken {
		t.Error("a message to a run of another process was not taken")
	}
	if e := routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: id})); e.State != run.Stopped {
		t.Errorf("stopped as %+v", e)
	}
	if text := v.watch(); v.end.State != run.Stopped || !counts(text) || strings.Count(text, "<7>") != 1 {
		t.Errorf("%q, %+v", text, v.end)
	}
	if whole := attach(t, c, id); whole.text.String() != v.text.String() {
		t.Errorf("later the text is %q, and was %q", whole.text.String(), v.text.String())
	}
}

// A run whose process is killed is lost, for all that watch it and once. What was written before stays.
func TestARunOfAKilledProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	child := process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL(), "running")
	id := s.Do("LPOP", "runs").(string)
	first, second := serveOn(t, s.URL()).Dial(), serveOn(t, s.URL()).Dial()
	one, two := attach(t, first, id), attach(t, second, id)
	one.next()
	kill(child)
	stopped := first.Request("run.stop", run.Ref{Run: id}) // which is answered when it is known how it has ended
	for _, v := range []*viewer{one, two} {
		if text := v.watch(); v.end.State != run.Lost || !counts(text) {
			t.Errorf("%q, %+v", text, v.end)
		}
	}
	if one.text.String() != two.text.String() {
		t.Errorf("one has %q, the other %q", one.text.String(), two.text.String())
	}
	if e := routertest.ExpectReply[run.End](stopped); e.State != run.Lost {
		t.Errorf("stopped as %+v", e)
	}
}

// untilRegistered waits until processes say of so many runs that they run them.
func untilRegistered(t *testing.T, s *redistest.Server, runs int) adapters.Backend {
	t.Helper()
	b := redistest.Open(t, s.URL(), redis.Options{})
	poll.Until(t, fmt.Sprint("the registry to have ", runs, " runs"), func() bool {
		members, err := b.Presence.Members(t.Context(), registry)
		return err == nil && len(members) == runs
	})
	return b
}

// A run whose process was killed while there was no other one is lost for the next one.
func TestARunOfALoneProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	child := process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL(), "running")
	id := s.Do("LPOP", "runs").(string)
	kill(child)
	b := untilRegistered(t, s, 0)
	poll.Until(t, "the process to be forgotten", func() bool {
		members, err := b.Presence.Members(t.Context(), "$ws:run:run:processes")
		return err == nil && len(members) == 0
	})
	if v := attach(t, serveOn(t, s.URL()).Dial(), id); v.end == nil || v.end.State != run.Lost {
		t.Errorf("the end is %+v", v.end)
	}
}

// unreadable is a broker that cannot read a topic.
type unreadable struct {
	redis.Broker
	topic string
}

func (u unreadable) Read(
	ctx context.Context, topic string, h pubsub.History, o pubsub.ReadOptions,
) (pubsub.Page, error) {
	if topic == u.topic {
		return pubsub.Page{}, fmt.Errorf("%s cannot be read", topic)
	}
	return u.Broker.Read(ctx, topic, h, o)
}

// A run that cannot be read does not keep others from being found lost.
func TestARunBesideOneThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	bad := process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL(), "running")
	b := redistest.Open(t, s.URL(), redis.Options{ProcessTimeout: processTimeout})
	b.Broker = unreadable{b.Broker.(redis.Broker), "run:" + s.Do("LPOP", "runs").(string)}
	server, _ := serverWith(t, s.URL(), b)
	good := process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL(), "running")
	v := attach(t, server.Dial(), s.Do("LPOP", "runs").(string))
	kill(bad)
	untilRegistered(t, s, 1)
	kill(good)
	if v.watch(); v.end.State != run.Lost {
		t.Errorf("%+v", v.end)
	}
}

// A process that stood still while others called its run lost stops it when it goes on, and ends it no second time.
func TestARunOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	child := process.StartTest(t, "TestRunProcess", "WSKIT_TEST_RUN="+s.URL(), "running")
	id := s.Do("LPOP", "runs").(string)
	server := serveOn(t, s.URL())
	c := server.Dial()
	v := attach(t, c, id)
	v.next()
	if err := process.Stop(child.Process); err != nil {
		t.Fatal(err)
	}
	if v.watch(); v.end.State != run.Lost {
		t.Errorf("%+v", v.end)
	}
	text := v.text.String()
	if err := process.Continue(child.Process); err != nil {
		t.Fatal(err)
	}
	if e := routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: id})); e.State != run.Lost {
		t.Errorf("stopped as %+v", e)
	}
	other := server.Dial()
	after := routertest.ExpectReply[run.Began](other.Request("count", 10)).Run
	attach(t, other, after).watch() // time for the other process to write
	if whole := attach(t, c, id); whole.text.String() != text || whole.end.State != run.Lost {
		t.Errorf("later the text is %q, and was %q; %+v", whole.text.String(), text, whole.end)
	}
}

// Serve lets runs finish before it closes the backend.
func TestServe(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s, r := serverOn(t, redis.URL(), processTimeout)
	serving, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(serving, &http.Server{Addr: "127.0.0.1:0"}) }()
	id := routertest.ExpectReply[run.Began](s.Dial().Request("count", 100)).Run
	other := serveOn(t, redis.URL()).Dial()
	attach(t, other, id).next()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if v := attach(t, other, id); v.end == nil || v.end.State != run.Done ||
		len(strings.Fields(v.text.String())) != 100 {
		t.Errorf("%q, %+v", v.text.String(), v.end)
	}
}

// A Redis that comes back without what it had last ends a run as lost, whose text is the same for all from then on: for
// those that had seen more, for those that come later, and on other servers. Its handler is stopped.
func TestARunOfWhichTheServersLoseAPart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one, two := serveOn(t, s.URL()).Dial(), serveOn(t, s.URL()).Dial()
	id := routertest.ExpectReply[run.Began](one.Request("count", -1)).Run
	first := attach(t, one, id)
	for range 3 {
		first.next()
	}
	s.Do("SAVE")
	for saved := attach(t, two, id); first.n < saved.n+3; {
		first.next()
	}
	s.Kill()
	s.Run()
	one.ExpectAny("$ws:reset")
	var text string
	poll.Until(t, "the run to be lost", func() bool {
		v := attach(t, two, id)
		text = v.text.String()
		return v.end != nil && v.end.State == run.Lost
	})
	if !counts(text) || !strings.HasPrefix(first.text.String(), text) || text == first.text.String() {
		t.Errorf("the text is %q, and was %q", text, first.text.String())
	}
	for _, c := range []*routertest.Client{one, two} {
		if whole := attach(t, c, id); whole.text.String() != text || whole.end == nil || whole.end.State != run.Lost {
			t.Errorf("the text is %q, %+v; want %q", whole.text.String(), whole.end, text)
		}
		if e := routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: id})); e.State != run.Lost {
			t.Errorf("stopped as %+v", e)
		}
	}
	poll.Until(t, "the budget to be given back", func() bool { return budget-budgetOf(one).Left < slice })
}

// allKeys reads keys, for how many milliseconds they are kept, and what is in them, at one moment: none expires between.
const allKeys = `local all = {}
for _, key in ipairs(redis.call('keys', ARGV[1])) do
	all[#all + 1] = {key, math.max(1, redis.call('pttl', key)), redis.call('dump', key)}
end
return all`

// A run that has ended, and of which Redis has lost the end, has another one, also while its process lives: it is lost,
// or begun again. So it is where Redis has lost as well that the run is not registered any more.
func TestARunOfWhichTheEndIsLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		typ  string
		keys string // that lose what came last
		want run.State
	}{
		{"count", "*{run:*", run.Lost}, {"steps", "*{run:*", run.Done}, {"count", "*run:*", run.Lost},
	} {
		t.Run(test.typ+" "+test.keys, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			server, two := serveOn(t, s.URL()), serveOn(t, s.URL()).Dial()
			var before []any
			var first *viewer
			for first == nil || first.end != nil { // the keys are to be read before the end of a run that takes 2.5 s
				one := server.Dial() // the one before may still get outputs of its run
				id := routertest.ExpectReply[run.Began](one.Request(test.typ, 500)).Run
				attach(t, one, id).next()
				before = s.Do("EVAL", allKeys, 0, test.keys).([]any)
				first = attach(t, one, id)
			}
			if first.watch(); first.end.State != run.Done {
				t.Fatalf("the run has ended as %+v", first.end)
			}
			untilRegistered(t, s, 0)
			for _, key := range before {
				s.Do(append(append([]any{"RESTORE"}, key.([]any)...), "REPLACE")...)
			}
			v := attach(t, two, first.id)
			if text := v.watch(); v.end.State != test.want || !counts(text) {
				t.Errorf("%q, %+v", text, v.end)
			}
			if again := attach(t, server.Dial(), first.id); again.end == nil || again.end.State != test.want ||
				again.text.String() != v.text.String() {
				t.Errorf("later it is %q, %+v; want %q, %+v", again.text.String(), again.end, v.text.String(), v.end)
			}
		})
	}
}

// Runs of a server whose connections to Redis are cut at any byte, and stand still for a while: nothing is missing, and
// nothing comes twice.
func TestRunsOverABadNetwork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	const patient = time.Minute // a process that cannot say for so long that it lives has lost its runs
	bad, _ := serverOn(t, strings.Replace(s.URL(), s.Addr, proxy.Addr, 1), patient)
	good, _ := serverOn(t, s.URL(), patient)
	c := bad.Dial()
	var viewers []*viewer
	for range 10 {
		id := routertest.ExpectReply[run.Began](c.Request("count", 700)).Run
		viewers = append(viewers, attach(t, good.Dial(), id))
	}
	for range 15 {
		proxy.CutAfter(rand.Int64N(3000))
		viewers[0].next()
		proxy.Mend()
	}
	proxy.Mute()
	poll.Within(300*time.Millisecond, func() bool { return false })
	proxy.Mend()
	for _, v := range viewers {
		if text := v.watch(); v.end.State != run.Done || len(strings.Fields(text)) != 700 || !counts(text) {
			t.Errorf("%+v: %q", v.end, text)
		}
		if again := attach(t, bad.Dial(), v.id); again.text.String() != v.text.String() {
			t.Errorf("later the text is %q, and was %q", again.text.String(), v.text.String())
		}
	}
}
