package postgres_test

import (
	"context"
	"testing"

	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// A run of one server is watched, steered and stopped from another one.
func TestRuns(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	serve := func() *routertest.Client {
		r := router.New(router.Options{Backend: open(t, s.URL(), postgres.Options{ProcessTimeout: processTimeout})})
		runs, err := run.New(r, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run.Handle(runs, "echo", func(ctx context.Context, _ struct{}, w *run.Writer) error {
			for {
				data, err := w.Input(ctx)
				if err == nil {
					err = w.Text(string(data))
				}
				if err != nil {
					return err
				}
			}
		})
		return routertest.New(t, r).Dial()
	}
	one, two := serve(), serve()
	id := routertest.ExpectReply[run.Began](one.Request("echo", struct{}{})).Run
	for _, data := range []string{"1", "2"} {
		if !routertest.ExpectReply[run.Steered](
			two.Request("run.steer", run.Steer{Run: id, ID: data, Data: []byte(data)}),
		).Taken {
			t.Errorf("%s was not taken", data)
		}
	}
	if e := routertest.ExpectReply[run.End](two.Request("run.stop", run.Ref{Run: id})); e.State != run.Stopped {
		t.Errorf("stopped as %+v", e)
	}
	for _, c := range []*routertest.Client{one, two} {
		if w := routertest.ExpectReply[run.Whole](c.Request("run.attach", run.Ref{Run: id})); w.Text != "12" ||
			w.End == nil {
			t.Errorf("%+v", w)
		}
	}
}
