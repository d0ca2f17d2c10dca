package httpclose_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/httpclose"
)

func TestAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a httpclose.Accepts
		burst := func() (n int64) {
			var taken atomic.Int64
			var all sync.WaitGroup
			for range 300 {
				all.Go(func() {
					if a.Take() {
						taken.Add(1)
					}
				})
			}
			all.Wait()
			return taken.Load()
		}
		for _, c := range []struct {
			after time.Duration
			want  int64
		}{{0, 100}, {0, 0}, {9 * time.Millisecond, 0}, {time.Millisecond, 1}, {500 * time.Millisecond, 50}, {time.Hour, 100}} {
			time.Sleep(c.after)
			if n := burst(); n != c.want {
				t.Errorf("after %v: %d, want %d", c.after, n, c.want)
			}
		}
	})
}
