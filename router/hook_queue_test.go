package router

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/errors"
)

// A flood of refusals does not fill the memory while a hook hangs: what is left out is counted,
// and logged once.
func TestHooksThatHangAreNotQueuedForWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		called := 0
		hang := make(chan struct{})
		r := New(Options{
			OnRefused: func(Refused) { called++; <-hang },
			Logger:    slog.New(slog.NewTextHandler(&log, nil)),
		})
		const more = 1000
		report := func(n int) {
			for range n {
				r.reportRefused(Refused{Kind: RefusedType}, 0, errors.Unimplemented.New("unknown"))
			}
		}
		report(1)
		synctest.Wait() // the hook has it
		report(1<<16 + more)
		if missed := r.Stats().HooksMissed; missed != more {
			t.Errorf("%d calls were left out, want %d", missed, more)
		}
		close(hang)
		synctest.Wait()
		if called != 1+1<<16 {
			t.Errorf("the hook was called %d times, want %d", called, 1+1<<16)
		}
		if n := strings.Count(log.String(), "OnRefused is too slow"); n != 1 {
			t.Errorf("%d lines in the log, want 1: %.300s", n, log.String())
		}
		report(1)
		synctest.Wait()
		if called != 2+1<<16 {
			t.Error("the hook is not called any more")
		}
	})
}
