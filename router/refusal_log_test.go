package router_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Without a hook, a flood of refusals has one line in a second, and the lines count all of it. With one it has none.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	for _, hooked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log safeLog
			opts := router.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if hooked {
				opts.OnRefused = func(router.Refused) {}
			}
			r := router.New(opts)
			c := routertest.New(t, r).Dial()
			time.Sleep(time.Second)
			for range 2 {
				for range 100 {
					c.SendRaw(`{"type":"unknown"}`)
				}
				synctest.Wait()
				time.Sleep(time.Second)
			}
			lines := log.count("wskit: refused")
			if want := map[bool]int{false: 2, true: 0}[hooked]; lines != want {
				t.Errorf("hooked %v: %d lines, want %d", hooked, lines, want)
			}
			if !hooked && (log.count("others_since_last_line=99") != 1 || log.count("kind=type") != 2) {
				t.Errorf("the log is %s", log.buf.String())
			}
		})
	}
}
