package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/client/runs"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
)

// reading is what has come of a run: the text with the events at their places.
type reading struct {
	mu       sync.Mutex
	text     string
	question string // the open one
	end      *runs.End
	resets   int
	err      error
	over     chan struct{} // closed at the end
}

// read reads a run in another goroutine.
func read(ctx context.Context, r *runs.Run) *reading {
	got := &reading{over: make(chan struct{})}
	go func() {
		defer close(got.over)
		for p, err := range r.Pieces(ctx) {
			got.mu.Lock()
			got.text += p.Text
			switch {
			case err != nil:
				got.err = err
			case p.Event != nil:
				got.text += string(p.Event) + " "
			case p.Question != nil:
				got.question = p.Question.ID
			case p.Closed != "" && p.Closed == got.question:
				got.question = ""
			case p.Reset:
				got.text, got.question = "", ""
				got.resets++
			}
			got.end = p.End
			got.mu.Unlock()
		}
	}()
	return got
}

func (r *reading) has(what func(r *reading) bool) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return what(r)
	}
}

// ended waits for the end.
func (r *reading) ended(t *testing.T, state string) {
	t.Helper()
	<-r.over
	if r.err != nil || r.end == nil || r.end.State != state || r.resets > 0 || r.question != "" {
		t.Errorf("the end is %+v, %v; want %s. %d resets, open is %q", r.end, r.err, state, r.resets, r.question)
	}
}

func runScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	phone, desk := act(t, s, "ann", client.Options{}).Client, act(t, s, "ann", client.Options{}).Client
	begin := func(text string, ms int) *runs.Run {
		r, err := runs.Start(t.Context(), phone, "write", payload{Text: text, Ms: ms})
		ok(t, err)
		return r
	}
	cut := func() { ok(t, s.CutNow(clienttest.CutNowOptions{})) }
	text := func(part string) func(*reading) bool {
		return func(r *reading) bool { return strings.Contains(r.text, part) }
	}
	asks := func(r *reading) bool { return r.question != "" }

	r := begin("eins zwei EVENT drei ASK vier fünf INPUT sechs", 30)
	other := runs.Attach(desk, r.ID())
	one, two, three := read(t.Context(), r), read(t.Context(), other), read(t.Context(), runs.Attach(desk, r.ID()))
	eventually(t, "the second word", one.has(text("zwei")))
	cut()
	eventually(t, "the question", one.has(asks))
	eventually(t, "the question", two.has(asks))
	cut()
	taken := 0
	for answer, from := range map[string]*runs.Run{"ja": r, "nein": other} {
		yes, err := from.Answer(t.Context(), "1", answer)
		ok(t, err)
		if yes {
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("%d answers were taken", taken)
	}
	eventually(t, "more words", two.has(text("fünf")))
	cut()
	if yes, err := other.Steer(t.Context(), "bitte"); !yes || err != nil {
		t.Errorf("the message was not taken: %v", err)
	}
	<-one.over
	want := map[bool]string{}
	for _, answer := range []string{"ja", "nein"} {
		want[one.text == fmt.Sprintf(`eins zwei {"n":2} drei %s vier fünf bitte sechs `, answer)] = answer
	}
	if want[true] == "" {
		t.Errorf("the text is %q", one.text)
	}
	for _, r := range []*reading{one, two, three, read(t.Context(), other)} {
		r.ended(t, "done")
		if r.text != one.text || r.end == nil || string(r.end.Result) != `{"n":9}` {
			t.Errorf("%q with %+v, and %q", r.text, r.end, one.text)
		}
	}
	if yes, err := r.Steer(t.Context(), "late"); yes || err != nil {
		t.Errorf("a message was taken after the end: %v", err)
	}

	second := begin(strings.Repeat("a ", 1000), 200)
	watching := read(t.Context(), second)
	eventually(t, "a word", watching.has(text("a")))
	if e, err := runs.Attach(desk, second.ID()).Stop(t.Context()); e.State != "stopped" {
		t.Errorf("stopped as %+v, %v", e, err)
	}
	watching.ended(t, "stopped")

	third := begin(strings.Repeat("a ", 1000), 200)
	lost := read(t.Context(), third)
	eventually(t, "a word", lost.has(text("a")))
	kill := clienttest.StopOptions{Kill: true}
	ok(t, s.Restart(clienttest.RestartOptions{StopOptions: kill}))
	lost.ended(t, "lost")
	ok(t, s.Restart(clienttest.RestartOptions{StopOptions: kill, StartOptions: clienttest.StartOptions{Lose: true}}))
	gone := read(t.Context(), third)
	if <-gone.over; errors.CodeOf(gone.err) != errors.NotFound {
		t.Errorf("a run that the server has lost: %v", gone.err)
	}

	fourth, err := runs.Start(t.Context(), phone, "rewrite", payload{Text: "a b CHECKPOINT RESUMED d INPUT e", Ms: 30})
	ok(t, err)
	again := read(t.Context(), fourth)
	eventually(t, "words behind the checkpoint", again.has(text("d")))
	ok(t, s.Restart(clienttest.RestartOptions{StopOptions: kill}))
	eventually(t, "the words once more", again.has(func(r *reading) bool { return r.resets == 1 && text("d")(r) }))
	if yes, err := fourth.Steer(t.Context(), "bitte"); !yes || err != nil {
		t.Errorf("the message was not taken: %v", err)
	}
	if <-again.over; again.text != "a b again d bitte e " || again.resets != 1 || again.end.State != "done" {
		t.Errorf("%q, %+v, %d resets", again.text, again.end, again.resets)
	}
}

// A run that has failed says why. Reading ends with its context and with the client, and the server sends nothing more.
func TestReadingARunEnds(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Options{})
	c := act(t, s, "ann", client.Options{}).Client
	r, err := runs.Start(t.Context(), c, "write", payload{Text: "a FAIL"})
	ok(t, err)
	failed := read(t.Context(), r)
	if failed.ended(t, "failed"); failed.end.Code != errors.FailedPrecondition || failed.end.Message != "as asked" {
		t.Errorf("the end is %+v", failed.end)
	}
	r, err = runs.Start(t.Context(), c, "write", payload{Text: strings.Repeat("a ", 1000), Ms: 200})
	ok(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	one, two := read(ctx, r), read(t.Context(), r)
	eventually(t, "a word", one.has(func(r *reading) bool { return r.text != "" }))
	detached := len(received(s.Log(), "run.detach"))
	cancel()
	if <-one.over; !errors.Is(one.err, context.Canceled) {
		t.Errorf("reading ends with %v", one.err)
	}
	if n := len(received(s.Log(), "run.detach")); n != detached {
		t.Error("the server was asked to send nothing more while another one reads")
	}
	for _, err := range r.Pieces(t.Context()) {
		ok(t, err)
		break
	}
	closing, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Close(closing)
	if <-two.over; !errors.Is(two.err, client.ErrClosed) {
		t.Errorf("reading ends with %v", two.err)
	}
}

// An output that does not come is fetched, and a history that has changed begins anew.
func TestARunOfWhichAnOutputIsMissing(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Options{})
	c := act(t, s, "ann", client.Options{}).Client
	var words strings.Builder
	for n := range 60 {
		fmt.Fprintf(&words, "w%d ", n)
		if n == 9 {
			words.WriteString("INPUT ") // until something has been dropped
		}
	}
	begin := func() (*runs.Run, *reading) {
		r, err := runs.Start(t.Context(), c, "write", payload{Text: words.String(), Ms: 10})
		ok(t, err)
		got := read(t.Context(), r)
		eventually(t, "words", got.has(func(r *reading) bool { return strings.Contains(r.text, "w9 ") }))
		return r, got
	}
	drop := func(r *runs.Run) {
		ok(t, s.Alter(clienttest.Alter{Type: "run.output", Do: "drop"}))
		if yes, err := r.Steer(t.Context(), "on"); !yes || err != nil {
			t.Errorf("the message was not taken: %v", err)
		}
	}
	r, one := begin()
	drop(r)
	if one.ended(t, "done"); one.text != strings.Replace(words.String(), "INPUT", "on", 1) {
		t.Errorf("the text is %q", one.text)
	}
	r, two := begin()
	ok(t, s.Alter(clienttest.Alter{Type: "run.attach.reply", Do: "replace", With: `{"type":"run.attach.reply","meta":` +
		`{"correlationId":"{{id}}"},"payload":{"n":1,"text":"another beginning","end":{"state":"lost"}}}`}))
	drop(r)
	if <-two.over; two.text != "another beginning" || two.resets != 1 || two.end.State != "lost" {
		t.Errorf("the text is %q, with %d resets and %+v", two.text, two.resets, two.end)
	}
}
