package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// Ask begins a run of the tests.
type Ask struct {
	Text string `json:"text"`
}

func newRouter() *router.Router {
	return router.New(router.Options{Authenticate: authenticate})
}

func authenticate(req *http.Request) (ingress.Identity, error) {
	user, _, _ := strings.Cut(ingress.Token(req), ".")
	return ingress.Identity{Tenant: "acme", User: user}, nil
}

// viewer is a device that watches a run, as a page does: it joins what it gets by the numbers.
type viewer struct {
	t       *testing.T
	c       *routertest.Client
	id      string
	n       int
	text    strings.Builder
	events  []string
	open    map[string]string // questions
	spent   int64
	attempt int
	anew    bool // it has begun anew
	end     *run.End
}

// attach begins to watch, or begins anew.
func attach(t *testing.T, c *routertest.Client, id string) *viewer {
	t.Helper()
	whole := routertest.ExpectReply[run.Whole](c.Request("run.attach", run.Ref{Run: id}))
	v := &viewer{
		t: t, c: c, id: id, n: whole.N, end: whole.End, attempt: whole.Attempt, spent: whole.Spent,
		open: make(map[string]string),
	}
	for _, q := range whole.Questions {
		v.open[q.ID] = string(q.Question)
	}
	v.text.WriteString(whole.Text)
	for _, e := range whole.Events {
		v.events = append(v.events, fmt.Sprint(string(e.Event), " at ", e.At))
	}
	return v
}

// watch watches to the end, and returns the text.
func (v *viewer) watch() string {
	v.t.Helper()
	for v.end == nil {
		v.next()
	}
	return v.text.String()
}

func (v *viewer) next() {
	v.t.Helper()
	if v.end != nil {
		v.t.Fatalf("nothing comes any more: the run has ended as %+v, attempt %d", *v.end, v.attempt)
	}
	o := routertest.ExpectEvent[run.Output](v.c, "run.output")
	if o.Restart != nil || o.Attempt != v.attempt {
		if o.Attempt > v.attempt {
			whole := attach(v.t, v.c, v.id)
			v.text.Reset()
			v.text.WriteString(whole.text.String())
			v.n, v.events, v.open, v.spent, v.end = whole.n, whole.events, whole.open, whole.spent, whole.end
			v.attempt, v.anew = whole.attempt, true
		}
		return
	}
	if o.N <= v.n && o.End == nil { // it was sent again, since an answer of the backend was lost
		v.next()
		return
	}
	if o.N != v.n+1 && o.End == nil {
		v.t.Fatalf("output %d comes behind %d", o.N, v.n)
	}
	v.n = o.N
	v.text.WriteString(o.Text)
	if o.Event != nil {
		v.events = append(v.events, fmt.Sprint(string(o.Event), " at ", v.text.Len()))
	}
	if o.Question != nil {
		v.open[o.Question.ID] = string(o.Question.Question)
	}
	delete(v.open, o.Closed)
	v.spent = max(v.spent, o.Spent)
	v.end = o.End
}

// begin begins a run.
func begin(c *routertest.Client, text string) (id string) {
	return routertest.ExpectReply[run.Began](c.Request("ask", Ask{text})).Run
}

// in tests something in a bubble, with a router whose runs write words.
func in(t *testing.T, o run.Options, test func(t *testing.T, s *routertest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := writing(t, o)
		test(t, routertest.New(t, r))
	})
}

// writing is a router, in a bubble, whose runs write words.
func writing(t *testing.T, o run.Options) (*router.Router, *run.Runs) {
	t.Helper()
	r := newRouter()
	runs, err := run.New(r, o)
	if err != nil {
		t.Fatal(err)
	}
	handleWords(runs, func() { time.Sleep(100 * time.Millisecond) })
	return r, runs
}

// handleWords has runs write the words of a text, with a pause before each, and do what some of them say.
func handleWords(runs *run.Runs, pause func()) {
	run.Handle(runs, "ask", func(ctx context.Context, q Ask, w *run.Writer) error { return words(ctx, q, w, pause) })
}

func words(ctx context.Context, q Ask, w *run.Writer, pause func()) error {
	for i, word := range strings.Fields(q.Text) {
		if pause(); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var err error
		switch word {
		case "EVENT":
			err = w.Event(i)
		case "INPUT":
			var data json.RawMessage
			if data, err = w.Input(ctx); err == nil {
				err = w.Text("<" + string(data) + ">")
			}
		case "ASK":
			var n int
			if n, err = run.Ask[int](ctx, w, "how many?"); err == nil {
				err = w.Text(fmt.Sprint("<", n, "> "))
			}
		case "ASK-SOON":
			soon, cancel := context.WithTimeout(ctx, time.Second)
			_, err = run.Ask[int](soon, w, "how many?")
			cancel()
		case "SPEND":
			err = w.Spend(7)
		case "FAIL":
			err = fmt.Errorf("the password is hunter2")
		case "REFUSE":
			err = errors.FailedPrecondition.New("no more words")
		case "PANIC":
			panic("the password is hunter2")
		default:
			err = w.Text(word + " ")
		}
		if err != nil {
			return err
		}
	}
	return w.Done(len(q.Text))
}

const long = "one two three EVENT four five six seven eight nine ten"

// All devices get the same text, from the beginning, from the middle and at the end, with the events at their places.
func TestAllDevicesGetTheSame(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		phone, desk := s.Dial(routertest.DialOptions{Token: "ann.1"}), s.Dial(routertest.DialOptions{Token: "ann.2"})
		id := begin(phone, long)
		first := attach(t, phone, id)
		for range 3 {
			first.next()
		}
		second := attach(t, desk, id)
		want := strings.Replace(long, "EVENT ", "", 1) + " "
		for name, v := range map[string]*viewer{"phone": first, "desk": second} {
			if got := v.watch(); got != want || v.end.State != run.Done ||
				string(v.end.Result) != fmt.Sprint(len(long)) {
				t.Errorf("%s: %q, %+v", name, got, v.end)
			}
			if want := fmt.Sprint("3 at ", len("one two three ")); len(v.events) != 1 || v.events[0] != want {
				t.Errorf("%s: the events are %q, want %q", name, v.events, want)
			}
		}
		late := attach(t, desk, id)
		if late.text.String() != want || late.end == nil || late.end.State != run.Done ||
			late.events[0] != first.events[0] {
			t.Errorf("after the end: %q, %+v", late.text.String(), late.end)
		}
		if n := first.n; n > 9 { // 1.1 s: six a second, with the first, the event and the last
			t.Errorf("%d outputs", n)
		}
	})
}

// What the application publishes in the topic of a run is no output of it, whatever it has.
func TestOtherEventsInTheTopicOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := writing(t, run.Options{})
		c := routertest.New(t, r).Dial(routertest.DialOptions{Token: "ann.1"})
		id := begin(c, "a b c")
		v := attach(t, c, id)
		for _, payload := range []any{
			7, run.Output{N: 1000, Text: "x"}, run.Output{N: 1, End: &run.End{State: run.Failed}},
		} {
			if err := r.Publish(t.Context(), "run:"+id, "note", payload); err != nil {
				t.Fatal(err)
			}
		}
		if text := v.watch(); v.end.State != run.Done || text != "a b c " {
			t.Errorf("%q, %+v", text, v.end)
		}
		if late := attach(t, c, id); late.text.String() != "a b c " || late.end == nil || late.end.State != run.Done {
			t.Errorf("after the end: %q, %+v", late.text.String(), late.end)
		}
	})
}

// A run goes on when the client that has begun it is gone.
func TestALostConnectionStopsNothing(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		id := begin(c, long)
		c.Vanish()
		time.Sleep(500 * time.Millisecond)
		v := attach(t, s.Dial(routertest.DialOptions{Token: "ann.2"}), id)
		if v.watch(); v.end.State != run.Done {
			t.Errorf("the end is %+v", v.end)
		}
	})
}

// A run can be stopped from any device of its user. It ends then, and says so once. A second stop is answered with the
// end.
func TestStop(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c, other := s.Dial(routertest.DialOptions{Token: "ann.1"}), s.Dial(routertest.DialOptions{Token: "ann.2"})
		id := begin(c, long)
		v := attach(t, c, id)
		v.next()
		for range 2 {
			if e := routertest.ExpectReply[run.End](other.Request("run.stop", run.Ref{Run: id})); e.State != run.Stopped {
				t.Errorf("the end is %+v", e)
			}
		}
		if v.watch(); v.end.State != run.Stopped || v.text.Len() >= len(long) {
			t.Errorf("%q, %+v", v.text.String(), v.end)
		}
		synctest.Wait()
		for _, f := range c.Frames() {
			if f.Type == "run.output" {
				t.Errorf("behind the end comes %s", f)
			}
		}
	})
}

// A message to a run is taken once, or refused because the run has ended.
func TestSteer(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		id := begin(c, "a INPUT b")
		steer := func(message, data string) bool {
			q := c.Request("run.steer", run.Steer{Run: id, ID: message, Data: json.RawMessage(data)})
			return routertest.ExpectReply[run.Steered](q).Taken
		}
		if !steer("1", "7") {
			t.Error("the message was not taken")
		}
		v := attach(t, c, id)
		if got := v.watch(); got != "a <7>b " || v.end.State != run.Done {
			t.Errorf("%q, %+v", got, v.end)
		}
		if !steer("1", "7") {
			t.Error("a message that was taken is refused when it is sent again")
		}
		if steer("2", "8") {
			t.Error("a message was taken after the end")
		}
	})
}

// Of the messages that a run does not take, 100 wait. One more is answered when its time is over, and taken when it is
// sent again.
func TestMessagesThatWait(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		id := begin(c, "ASK"+strings.Repeat(" INPUT", 101))
		for v := attach(t, c, id); len(v.open) == 0; {
			v.next()
		}
		steer := func(q run.Steer) *routertest.Request {
			q.Run, q.Data = id, json.RawMessage("1")
			return c.Request("run.steer", q)
		}
		taken := func(q *routertest.Request) {
			t.Helper()
			if !routertest.ExpectReply[run.Steered](q).Taken {
				t.Error("a message was not taken")
			}
		}
		var sent []*routertest.Request
		for i := range 101 {
			sent = append(sent, steer(run.Steer{ID: fmt.Sprint("message ", i)}))
			synctest.Wait()
		}
		taken(steer(run.Steer{To: "1"})) // from now on the run takes them
		for _, q := range sent[:100] {
			taken(q)
		}
		time.Sleep(15 * time.Second)
		sent[100].ExpectError(errors.DeadlineExceeded)
		taken(steer(run.Steer{ID: "message 100"}))
	})
}

// A failed run says its code; the text of an error without one, and of a panic, stays on the server.
func TestFailures(t *testing.T) {
	in(t, run.Options{}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		for text, want := range map[string]run.End{
			"a FAIL b":   {State: run.Failed, Code: errors.Internal, Message: "internal error"},
			"a PANIC b":  {State: run.Failed, Code: errors.Internal, Message: "internal error"},
			"a REFUSE b": {State: run.Failed, Code: errors.FailedPrecondition, Message: "no more words"},
		} {
			v := attach(t, c, begin(c, text))
			if v.watch(); v.end.State != want.State || v.end.Code != want.Code || v.end.Message != want.Message {
				t.Errorf("%s: %+v, want %+v", text, *v.end, want)
			}
		}
	})
}

// Others may neither watch nor stop nor steer a run, and do not learn whether it exists. Allow lets them.
func TestRights(t *testing.T) {
	for name, o := range map[string]run.Options{
		"owner": {},
		"allow": {Allow: func(c *router.Context, i run.Info) error {
			if i.User != "ann" || c.Conn().Identity().User != "boss" {
				return errors.PermissionDenied.New("not yours")
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, o, func(t *testing.T, s *routertest.Server) {
				id := begin(s.Dial(routertest.DialOptions{Token: "ann.1"}), long)
				for _, user := range []string{"bob", "boss", ""} {
					c := s.Dial(routertest.DialOptions{Token: user + ".1"})
					for typ, q := range map[string]any{
						"run.attach": run.Ref{Run: id}, "run.stop": run.Ref{Run: id}, "run.steer": run.Steer{Run: id, Data: json.RawMessage("1")},
					} {
						if user == "boss" && o.Allow != nil {
							if typ == "run.attach" {
								routertest.ExpectReply[run.Whole](c.Request(typ, q))
							}
							continue
						}
						want := errors.NotFound
						if o.Allow != nil {
							want = errors.PermissionDenied
						}
						c.Request(typ, q).ExpectError(want)
					}
				}
			})
		})
	}
}

// A user has so many runs at the same time and no more; one that has ended makes room.
func TestAtOnce(t *testing.T) {
	in(t, run.Options{AtOnce: 2}, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		id := begin(c, long)
		begin(c, long)
		s.Dial(routertest.DialOptions{Token: "ann.2"}).Request("ask", Ask{long}).ExpectError(errors.ResourceExhausted)
		begin(s.Dial(routertest.DialOptions{Token: "bob.1"}), long)
		routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: id}))
		synctest.Wait()
		begin(c, long)
	})
}

// Wait lets runs finish, and what is cut is lost.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, runs := writing(t, run.Options{})
		s := routertest.New(t, r)
		c := s.Dial(routertest.DialOptions{Token: "ann.1"})
		short, cut := attach(t, c, begin(c, "a b")), begin(c, long)
		within, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		done := make(chan struct{})
		go func() { runs.Wait(within); close(done) }()
		if short.watch(); short.end.State != run.Done {
			t.Errorf("a run that had time ends as %+v", short.end)
		}
		c.Request("ask", Ask{"late"}).ExpectError(errors.Unavailable)
		time.Sleep(time.Second)
		if v := attach(t, c, cut); v.watch() == "" || v.end.State != run.Lost {
			t.Errorf("a run that was cut ends as %+v", v.end)
		}
		<-done
	})
}

// A server that shuts down lets runs finish, and ends the others as lost before it is gone: another server that shares
// its backend says so at once.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := adapters.Backend{
			Broker: memory.NewBroker(), Presence: memory.NewPresence(),
			Limits: memory.NewStore(),
		}
		start := func() (*router.Router, *routertest.Client) {
			r := router.New(router.Options{Backend: shared, Authenticate: authenticate})
			runs, err := run.New(r)
			if err != nil {
				t.Fatal(err)
			}
			handleWords(runs, func() { time.Sleep(100 * time.Millisecond) })
			return r, routertest.New(t, r).Dial(routertest.DialOptions{Token: "ann.1"})
		}
		ending, c := start()
		_, other := start()
		short, cut := attach(t, other, begin(c, "a b c d")), attach(t, other, begin(c, long))
		within, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond) // cut after 945
		defer cancel()
		if err := ending.Shutdown(within); err != nil {
			t.Errorf("%v after a run was cut", err)
		}
		for v, want := range map[*viewer]run.State{short: run.Done, cut: run.Lost} {
			if v = attach(t, other, v.id); v.end == nil || v.end.State != want || v.text.Len() == 0 {
				t.Errorf("%q, %+v; want %s", v.text.String(), v.end, want)
			}
		}
	})
}

// A client that comes late gets an answer of 5,000 tokens in one frame, of hardly more bytes than its text.
func TestALateClient(t *testing.T) {
	var text strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&text, "“token” %d,\n", n)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRouter()
		runs, err := run.New(r)
		if err != nil {
			t.Fatal(err)
		}
		run.Handle(runs, "ask", func(_ context.Context, _ Ask, w *run.Writer) error {
			for token := range strings.SplitAfterSeq(text.String(), "\n") {
				time.Sleep(20 * time.Millisecond)
				if err := w.Text(token); err != nil {
					return err
				}
			}
			return nil
		})
		s := routertest.New(t, r)
		id := begin(s.Dial(routertest.DialOptions{Token: "ann.1"}), "")
		time.Sleep(5 * time.Minute)
		late := s.Dial(routertest.DialOptions{Token: "ann.2"})
		late.Request("run.attach", run.Ref{Run: id})
		synctest.Wait()
		frames := late.Frames()
		if len(frames) != 1 || len(frames[0].Raw) > text.Len()*12/10 {
			t.Errorf("%d frames, of %d bytes, for a text of %d", len(frames), len(frames[0].Raw), text.Len())
		}
		var whole run.Whole
		if err := json.Unmarshal(frames[0].Payload, &whole); err != nil || whole.Text != text.String() ||
			whole.N > 5*101 {
			t.Errorf("%v: %d outputs, and the text is %.200q", err, whole.N, whole.Text)
		}
	})
}

// Of a run that was begun again, only what the present attempt has written counts: not what a process writes of which the
// backend has lost that it had begun the run again, nor what it began then, nor what comes behind the end.
func TestOutputsOfOtherAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter()
		if _, err := run.New(r); err != nil {
			t.Fatal(err)
		}
		id := strings.Repeat("P", 16) + "-run"
		for _, o := range []run.Output{
			{N: 1, Info: &run.Info{ID: id, Tenant: "acme", User: "ann"}, Text: "one "},
			{N: 2, Attempt: 7, Restart: &run.Restart{Process: "Q"}},
			{N: 3, Attempt: 9, Text: "wrong "},
			{N: 3, Attempt: 9, Restart: &run.Restart{Process: "R"}},
			{N: 3, Text: "wrong "},
			{N: 3, Attempt: 7, Text: "two "},
			{N: 4, Attempt: 9, End: &run.End{State: run.Failed}},
			{N: 4, Attempt: 7, End: &run.End{State: run.Done}},
			{N: 5, Attempt: 7, Text: "wrong ", End: &run.End{State: run.Failed}},
		} {
			if err := r.Publish(t.Context(), "run:"+id, "run.output", o); err != nil {
				t.Fatal(err)
			}
		}
		v := attach(t, routertest.New(t, r).Dial(routertest.DialOptions{Token: "ann"}), id)
		if v.text.String() != "two " || v.end == nil || v.end.State != run.Done {
			t.Errorf("%q, %+v", v.text.String(), v.end)
		}
	})
}
