package inspect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// The overview has the runs that go on, with their users, and how those of each type have ended.
func TestRuns(t *testing.T) {
	p := &process{t: t, r: router.New(router.Options{Authenticate: func(req *http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: ingress.Token(req), Tenant: "acme"}, nil
	}})}
	runs, err := run.New(p.r)
	if err != nil {
		t.Fatal(err)
	}
	run.Handle(runs, "wait", func(ctx context.Context, _ said, _ *run.Writer) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	hs := httptest.NewServer(inspect.Handler(p.r, inspect.Options{
		Authorize: func(*http.Request) (inspect.Viewer, error) { return inspect.Viewer{Name: "reader"}, nil },
		Runs:      []*run.Runs{runs},
	}))
	t.Cleanup(hs.Close)
	p.url, p.s = hs.URL+"/", routertest.New(t, p.r)
	c := p.dial("ann")
	id := routertest.ExpectReply[run.Began](c.Request("wait", said{"x"})).Run
	second := routertest.ExpectReply[run.Began](c.Request("wait", said{"x"})).Run
	routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: second}))
	poll.Until(t, "the overview to have the run that goes on, and the one that was stopped", func() bool {
		o := p.ask("overview").Processes[0].Overview
		return len(o.Runs) == 1 && o.Running == 1 && o.Runs[0].ID == id && o.Runs[0].User == "ann" && o.Runs[0].Type == "wait" &&
			o.RunTypes[0].Type == "wait" && o.RunTypes[0].Begun == 2 && o.RunTypes[0].Ends[run.Stopped] == 1
	})
	routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: id}))
}
