package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
	"github.com/wskit/wskit/router"
)

// shown is what a program shows of a topic: what has come since the last reset.
func shown(a *actor) []string {
	var list []string
	for _, s := range a.all() {
		switch {
		case s == "reset":
			list = nil
		case !strings.HasPrefix(s, "gap"):
			list = append(list, s)
		}
	}
	return list
}

func keepScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	publish(t, s, 5)
	a := act(t, s, "ann", client.Options{})
	var opened, whole, loaded atomic.Int64
	stop := client.Keep(a.Client, history, client.Keeping{
		Open: func(ctx context.Context, all bool) error {
			if opened.Add(1); all && whole.Add(1) == 2 {
				publish(t, s, 3) // they come twice: now, and when the topic begins anew
				eventually(t, "the events come", func() bool { return slices.Contains(a.all(), "said 13") })
			}
			_, err := client.Request[payload](ctx, a.Client, "open", map[string]any{"topic": history, "all": all})
			if err == nil && all {
				loaded.Add(1)
			}
			return err
		},
		Reset: func() { a.add("reset") },
	})
	expect := func(from, to int, loads int64) {
		t.Helper()
		eventually(t, "everything that the topic keeps is shown, and Open has its answer", func() bool {
			return slices.Equal(shown(a), said(from, to)) && loaded.Load() == loads // a loss before the answer loads again
		})
		if n := whole.Load(); n != loads {
			t.Errorf("everything has come %d times, want %d", n, loads)
		}
	}
	expect(1, 5, 1)
	ok(t, s.Refuse(clienttest.RefuseOptions{TCP: true}))
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	publish(t, s, 5)
	ok(t, s.Resume(struct{}{}))
	expect(1, 10, 1)
	ok(t, s.Restart(clienttest.RestartOptions{StopOptions: clienttest.StopOptions{Kill: true}, StartOptions: clienttest.StartOptions{Lose: true}}))
	eventually(t, "everything has come again", func() bool { return loaded.Load() == 2 })
	a.request("echo", payload{}) // what the topic keeps is before its answer
	expect(11, 13, 2)
	stop()
	before := opened.Load()
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	a.awaitConnections(4)
	a.request("echo", payload{})
	if n := opened.Load() - before; n > 0 {
		t.Errorf("after stop the topic was opened %d times", n)
	}
}

// A refusal for which waiting helps is waited for; another one is reported once, and the next connection tries again.
func TestKeepWhenOpeningFails(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	reported := func(n int) error {
		t.Helper()
		var err error
		eventually(t, "the error is reported", func() bool {
			a.inbox.mu.Lock()
			defer a.inbox.mu.Unlock()
			if len(a.errors) < n {
				return false
			}
			err = a.errors[n-1]
			return true
		})
		return err
	}
	fails := []error{
		errors.Unavailable.New("away").WithRetryAfter(time.Millisecond), errors.PermissionDenied.New("not yours"), nil,
	}
	opened := make(chan bool, 10)
	client.Keep(a.Client, "room", client.Keeping{Open: func(_ context.Context, all bool) error {
		opened <- all
		err := fails[0]
		if fails = fails[1:]; len(fails) == 0 {
			panic("on purpose")
		}
		return err
	}})
	for range 2 {
		if all := <-opened; !all {
			t.Error("what has failed is not asked for again as a whole")
		}
	}
	if err := reported(1); errors.CodeOf(err) != errors.PermissionDenied {
		t.Errorf("reported is %v", err)
	}
	ok(t, s.CutNow(clienttest.CutNowOptions{}))
	if all := <-opened; !all {
		t.Error("on the next connection not everything is asked for")
	}
	if err := reported(2); !strings.Contains(fmt.Sprint(err), "on purpose") {
		t.Errorf("of a panic is reported %v", err)
	}
	a.close()
	client.Keep(a.Client, "room", client.Keeping{Open: func(context.Context, bool) error { t.Error("opened after Close"); return nil }})()
}

// A program has everything that a topic keeps, and what comes then, whatever happens to its connection.
func ExampleKeep() {
	r := router.New()
	r.History("board")
	router.RPC(r, "board.open", func(c *router.Context, all bool) (struct{}, error) {
		if !all {
			return struct{}{}, nil // it has been resumed
		}
		c.Unsubscribe("board")
		return struct{}{}, c.SubscribeFrom("board", "")
	})
	drawn := router.Declare[string](r, "drawn")
	s := httptest.NewServer(r)
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer func() { _ = r.Shutdown(ctx) }()
	_ = drawn.Publish(ctx, "board", "a circle")

	c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	var drawing []string
	complete := make(chan bool)
	client.On(c, "drawn", func(_ context.Context, what string, _ client.Meta) {
		if drawing = append(drawing, what); len(drawing) == 2 {
			close(complete)
		}
	})
	client.Keep(c, "board", client.Keeping{
		Open: func(ctx context.Context, all bool) error {
			_, err := client.Request[struct{}](ctx, c, "board.open", all)
			return err
		},
		Reset: func() { drawing = nil },
	})
	_ = drawn.Publish(ctx, "board", "a line")
	<-complete
	fmt.Println(drawing)
	// Output:
	// [a circle a line]
}
