package main

import (
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/router/routertest"
)

// The job goes on when its client leaves, and another page sees all of it.
func TestTheJobGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := routertest.New(t, newRouter())
		ann := s.Dial()
		job := routertest.ExpectReply[string](ann.Request("job.start", nil))
		if p := routertest.ExpectEvent[Progress](ann, "job.progressed"); p != (Progress{job, 10}) {
			t.Errorf("got %v", p)
		}
		ann.Vanish()
		again := s.Dial()
		again.Request("job.follow", job)
		for percent := 10; percent <= 100; percent += 10 {
			if p := routertest.ExpectEvent[Progress](again, "job.progressed"); p.Percent != percent {
				t.Errorf("got %v, want %d", p, percent)
			}
		}
	})
}
