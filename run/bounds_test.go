package run_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// whole has a run do something, and returns what a device gets that comes when it has ended. watch, if it is not nil,
// is called with one that watches from the beginning.
func whole(
	t *testing.T, ro router.Options, o run.Options, do func(ctx context.Context, w *run.Writer) error, watch func(v *viewer),
) (got run.Whole) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(ro)
		runs, err := run.New(r, o)
		if err != nil {
			t.Fatal(err)
		}
		run.Handle(runs, "do", func(ctx context.Context, _ struct{}, w *run.Writer) error { return do(ctx, w) })
		s := routertest.New(t, r)
		c := s.Dial()
		id := routertest.ExpectReply[run.Began](c.Request("do", nil)).Run
		if watch != nil {
			watch(attach(t, c, id))
		}
		time.Sleep(time.Minute)
		got = routertest.ExpectReply[run.Whole](c.Request("run.attach", run.Ref{Run: id}))
		if got.End == nil {
			t.Fatal("the run has not ended")
		}
	})
	return got
}

// Text that is written at once is sent in parts that fit the queues of clients, whatever its characters are.
func TestLongText(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10 << 10, 300 << 10} {
		text, seen := strings.Repeat("long\n\x01𝄞", n), ""
		write := func(_ context.Context, w *run.Writer) error { return w.Text(text) }
		watch := func(v *viewer) { seen = v.watch() }
		if len(text) > 1<<20 { // more than the queue of a client: it attaches again
			seen, watch = text, nil
		}
		got := whole(t, router.Options{}, run.Options{MaxBytes: len(text)}, write, watch)
		if seen != text || got.Text != text || got.End.State != run.Done {
			t.Errorf("%d bytes: one has seen %d, and one that comes late %d, %+v", len(text), len(seen), len(got.Text), *got.End)
		}
	}
}

// What does not fit MaxBytes is refused, and what was written before is kept.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	got := whole(t, router.Options{}, run.Options{MaxBytes: 100}, func(_ context.Context, w *run.Writer) error {
		if err := w.Text(strings.Repeat("\x01", 90)); err != nil {
			return err
		}
		if err := w.Event("12345678"); err != nil { // ten bytes of JSON
			return err
		}
		return w.Text("x")
	}, nil)
	if len(got.Text) != 90 || len(got.Events) != 1 || got.End.State != run.Failed || got.End.Code != errors.ResourceExhausted {
		t.Errorf("%d bytes, %d events, %+v", len(got.Text), len(got.Events), *got.End)
	}
}

// A run has 20,000 outputs at most, and its end is one of them: none falls out of the history.
func TestManyOutputs(t *testing.T) {
	t.Parallel()
	got := whole(t, router.Options{}, run.Options{}, func(_ context.Context, w *run.Writer) (err error) {
		for err == nil {
			err = w.Event(1)
		}
		return err
	}, nil)
	if n := len(got.Events); n > 20_000 || n < 19_900 || got.N > 20_000 || got.End.Code != errors.ResourceExhausted {
		t.Errorf("%d events, %d outputs, %+v", n, got.N, *got.End)
	}
}

// A part that fits no output is refused at once, and the run goes on; the largest is sent, with text before it.
func TestLargeParts(t *testing.T) {
	t.Parallel()
	fits, large := strings.Repeat("x", 256<<10-2), strings.Repeat("x", 256<<10-1)
	got := whole(t, router.Options{}, run.Options{}, func(ctx context.Context, w *run.Writer) error {
		_, asked := run.Ask[int](ctx, w, large)
		for part, err := range map[string]error{
			"event": w.Event(large), "checkpoint": w.Checkpoint(large), "question": asked, "result": w.Done(large),
		} {
			if errors.CodeOf(err) != errors.InvalidArgument {
				t.Errorf("a %s that is too large: %v", part, err)
			}
		}
		if err := w.Text(strings.Repeat("\x01", 64<<10)); err != nil {
			return err
		}
		if err := w.Text(strings.Repeat("\x01", 64<<10)); err != nil { // waits for the event
			return err
		}
		return errors.Join(w.Event(fits), w.Done(fits))
	}, nil)
	if len(got.Text) != 128<<10 || len(got.Events) != 1 || got.End.State != run.Done || len(got.End.Result) != 256<<10 {
		t.Errorf("%d bytes, %d events, %v with a result of %d bytes", len(got.Text), len(got.Events), got.End.State, len(got.End.Result))
	}
}

// An output that the router refuses is no failure of the backend: the run has failed at once.
func TestAnOutputThatDoesNotFit(t *testing.T) {
	t.Parallel()
	small := router.Options{Limits: router.Limits{MaxQueued: 4 << 10}}
	for name, write := range map[string]func(w *run.Writer, text string) error{
		"text":      (*run.Writer).Text,
		"long text": func(w *run.Writer, text string) error { return w.Text(strings.Repeat(text, 30)) },
		"an event":  func(w *run.Writer, text string) error { return w.Event(text) },
		"a result":  func(w *run.Writer, text string) error { return w.Done(text) },
	} {
		began, ended := time.Time{}, time.Time{}
		got := whole(t, small, run.Options{}, func(_ context.Context, w *run.Writer) error {
			began = time.Now()
			return write(w, strings.Repeat("x", 8<<10))
		}, func(v *viewer) { v.watch(); ended = time.Now() })
		if got.End.State != run.Failed || got.End.Code != errors.Internal || ended.Sub(began) != 0 {
			t.Errorf("%s: %+v, after %v", name, *got.End, ended.Sub(began))
		}
	}
}

// The data of a message to a run have 64 KiB at most, also where payloads may be larger.
func TestLargeData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(router.Options{Limits: router.Limits{MaxPayload: 1 << 20}})
		if _, err := run.New(r); err != nil {
			t.Fatal(err)
		}
		data := json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
		routertest.New(t, r).Dial().Request("run.steer", run.Steer{Run: "a", Data: data}).ExpectError(errors.InvalidArgument)
	})
}
