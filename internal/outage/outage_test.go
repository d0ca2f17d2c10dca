package outage

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
)

var errBroken = errors.New("it is broken")

func TestOutagesAreReportedOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var got []errors.Outage
		r := &Reporter{
			Component: "store", Name: "chat", Failing: "fails", Working: "works", Attrs: []any{"limiter", "chat"},
			Log:  slog.New(slog.NewTextHandler(&log, nil)),
			Hook: func(o errors.Outage) { got = append(got, o) },
		}
		r.Works()
		begin := time.Now()
		for range 3 {
			r.Failed(errBroken)
			r.Failed(errors.New("another"))
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		r.Works()
		r.Works()
		synctest.Wait()
		want := errors.Outage{Component: "store", Name: "chat", Err: errBroken, Since: begin}
		over := want
		over.Over = true
		if len(got) != 2 || got[0] != want || got[1] != over {
			t.Errorf("the hook got %+v", got)
		}
		text := log.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, `msg=fails error="it is broken" limiter=chat`) || !strings.Contains(text, "msg=works after=1m0s limiter=chat") {
			t.Errorf("the log is\n%s", text)
		}
	})
}

// A hook that does not return holds up nothing and costs no memory, and gets the latest
// state once it does.
func TestASlowHookHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan bool)
		var got []bool
		r := &Reporter{Log: slog.New(slog.DiscardHandler), Hook: func(o errors.Outage) {
			<-slow
			got = append(got, o.Over)
		}}
		for range 1000 {
			r.Failed(errBroken)
			r.Works()
		}
		r.Failed(errBroken)
		synctest.Wait()
		if n := len(r.waiting); n > 2 {
			t.Errorf("%d changes wait", n)
		}
		close(slow)
		synctest.Wait()
		if n := len(got); n == 0 || n > 4 || got[n-1] {
			t.Errorf("the hook got %v, and the component fails", got)
		}
		for i, over := range got {
			if over != (i%2 == 1) {
				t.Errorf("the hook got %v: beginnings and ends take turns", got)
			}
		}
	})
}

func TestAPanicOfTheHookIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		calls := 0
		r := &Reporter{Log: slog.New(slog.NewTextHandler(&log, nil)), Hook: func(errors.Outage) { calls++; panic("oops") }}
		r.Failed(errBroken)
		synctest.Wait()
		r.Works()
		synctest.Wait()
		if calls != 2 || strings.Count(log.String(), "panic=oops") != 2 {
			t.Errorf("%d calls, and the log is\n%s", calls, log.String())
		}
	})
}

// A component that fails now and then has one outage, until nothing has failed for a while.
func TestNowAndThenIsOneOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []bool
		r := &Reporter{
			Log: slog.New(slog.DiscardHandler), Settle: time.Second,
			Hook: func(o errors.Outage) { got = append(got, o.Over) },
		}
		for range 100 {
			r.Failed(errBroken)
			time.Sleep(time.Second / 2)
			r.Works()
			synctest.Wait()
		}
		if len(got) != 1 {
			t.Errorf("the hook was called %d times", len(got))
		}
		time.Sleep(time.Second / 2)
		r.Works()
		synctest.Wait()
		if len(got) != 2 || !got[1] {
			t.Errorf("the hook got %v", got)
		}
	})
}
