package run_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// Question begins a run of the example, and Summary is its result.
type (
	Question struct {
		Text string `json:"text"`
	}
	Summary struct {
		Words int `json:"words"`
	}
)

// newParrot is the first code of docs/runs.md.
func newParrot(ctx context.Context, r *router.Router) (*run.Runs, error) {
	runs, err := run.New(ctx, r, run.Options{})
	if err != nil {
		return nil, err
	}
	run.Handle(runs, "ask", func(ctx context.Context, q Question, w *run.Writer) error {
		words := strings.Fields("You have asked: " + q.Text)
		for _, word := range words {
			if err := w.Text(word + " "); err != nil {
				return err
			}
		}
		return w.Done(Summary{len(words)})
	})
	return runs, nil
}

// serve is the second.
func serve(ctx context.Context, r *router.Router, runs *run.Runs, server *http.Server) error {
	err := r.Serve(ctx, server)
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	runs.Wait(within)
	return err
}

// An answer is begun by one connection, and read by another one.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := router.New(router.Options{})
	runs, err := newParrot(ctx, r)
	if err != nil {
		panic(err)
	}
	s := httptest.NewServer(r)
	defer s.Close()
	dial := func() *client.Client {
		c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"), client.Options{})
		if err != nil {
			panic(err)
		}
		return c
	}
	one, two := dial(), dial()
	defer one.Close(ctx)
	defer two.Close(ctx)
	began, err := client.Request[run.Began](ctx, one, "ask", Question{"why?"})
	if err != nil {
		panic(err)
	}
	runs.Wait(ctx)
	whole, err := client.Request[run.Whole](ctx, two, "run.attach", run.Ref{Run: began.Run})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.TrimSpace(whole.Text), whole.End.State, string(whole.End.Result))
	// Output: You have asked: why? done {"words":4}
}
