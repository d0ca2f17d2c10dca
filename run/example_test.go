package run_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
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
func newParrot(r *router.Router) (*run.Runs, error) {
	runs, err := run.New(r)
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

// newParrotWithBudget is the code of docs/runs.md about a budget.
func newParrotWithBudget(r *router.Router) (*run.Runs, error) {
	runs, err := run.New(r, run.Options{Budget: limit.FixedWindow{Limit: 200_000, Window: 24 * time.Hour}})
	if err != nil {
		return nil, err
	}
	run.Handle(runs, "ask", func(ctx context.Context, q Question, w *run.Writer) error {
		for _, word := range strings.Fields("You have asked: " + q.Text) {
			if err := w.Spend(1); err != nil {
				return err // the budget is used up
			}
			if err := w.Text(word + " "); err != nil {
				return err
			}
		}
		return nil
	})
	return runs, nil
}

// A run that uses units of a budget.
func ExampleWriter_Spend() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := router.New(router.Options{Authenticate: func(*http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: "ann"}, nil
	}})
	runs, err := newParrotWithBudget(r)
	if err != nil {
		panic(err)
	}
	s := httptest.NewServer(r)
	defer s.Close()
	c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"))
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)
	if _, err := client.Request[run.Began](ctx, c, "ask", Question{"why?"}); err != nil {
		panic(err)
	}
	runs.Wait(ctx)
	left, err := client.Request[run.Left](ctx, c, "run.budget", struct{}{})
	fmt.Println(left.Left, err)
	// Output: 199996 <nil>
}

// A handler that asks the user before it goes on.
func ExampleAsk() {
	runs, err := run.New(router.New())
	if err != nil {
		panic(err)
	}
	run.Handle(runs, "tidy", func(ctx context.Context, folder string, w *run.Writer) error {
		yes, err := run.Ask[bool](ctx, w, "Delete everything in "+folder+"?")
		if err != nil || !yes {
			return err
		}
		return w.Text("deleted")
	})
}

// An import that goes on behind its last file when its process is killed.
func ExampleWriter_Checkpoint() {
	runs, err := run.New(router.New())
	if err != nil {
		panic(err)
	}
	run.Handle(runs, "import", func(ctx context.Context, files []string, w *run.Writer) error {
		done := 0
		if _, err := w.Resume(&done); err != nil { // what the last checkpoint got
			return err
		}
		for ; done < len(files); done++ {
			if err := w.Text("read " + files[done] + "\n"); err != nil {
				return err
			}
			if err := w.Checkpoint(done + 1); err != nil {
				return err
			}
		}
		return nil
	}, run.HandleOptions{Restartable: true})
}

// A server lets runs go on for a minute when it ends.
func ExampleRuns_Wait() {
	serve := func(r *router.Router, runs *run.Runs, server *http.Server, signals <-chan os.Signal) error {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go func() {
			<-signals
			within, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			runs.Wait(within)
			stop()
		}()
		return r.Serve(ctx, server)
	}
	_ = serve
}

// An answer is begun by one connection, and read by another one.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := router.New()
	runs, err := newParrot(r)
	if err != nil {
		panic(err)
	}
	s := httptest.NewServer(r)
	defer s.Close()
	dial := func() *client.Client {
		c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"))
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
	whole, err := client.Request[run.Whole](ctx, two, "run.attach", run.Ref(began))
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.TrimSpace(whole.Text), whole.End.State, string(whole.End.Result))
	// Output: You have asked: why? done {"words":4}
}
