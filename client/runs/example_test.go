package runs_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/client/runs"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// A program begins a run, answers its question, and prints what it writes.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := router.New()
	server, err := run.New(r)
	if err != nil {
		panic(err)
	}
	run.Handle(server, "greet", func(ctx context.Context, name string, w *run.Writer) error {
		if err := w.Text("Hello " + name + ". "); err != nil {
			return err
		}
		tea, err := run.Ask[bool](ctx, w, "Tea?")
		if err != nil {
			return err
		}
		return w.Done(tea)
	})
	s := httptest.NewServer(r)
	defer s.Close()
	c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"))
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)

	greeting, err := runs.Start(ctx, c, "greet", "Ann")
	if err != nil {
		panic(err)
	}
	for p, err := range greeting.Pieces(ctx) {
		switch {
		case err != nil:
			panic(err)
		case p.Question != nil:
			fmt.Print(string(p.Question.Question), " ")
			if _, err := greeting.Answer(ctx, p.Question.ID, true); err != nil {
				panic(err)
			}
		case p.End != nil:
			fmt.Println(p.End.State, string(p.End.Result))
		}
		fmt.Print(p.Text)
	}
	// Output: Hello Ann. "Tea?" done true
}
