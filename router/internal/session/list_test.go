package session

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

type conn struct{ link Link[conn] }

func newList() *List[conn] { return &List[conn]{Link: func(c *conn) *Link[conn] { return &c.link }} }

// In whatever order connections end, those that are left are listed, each once, and counted.
func TestThoseThatAreLeftAreListed(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		l, conns := newList(), make([]*conn, 3)
		var want []*conn // the latest first
		for i := range conns {
			conns[i] = new(conn)
			l.Add(conns[i])
			want = slices.Insert(want, 0, conns[i])
		}
		check := func() {
			t.Helper()
			if all := l.All(); !slices.Equal(all, want) || l.Len() != int64(len(want)) {
				t.Fatalf("order %v: %v are listed, %d counted, want %v", order, all, l.Len(), want)
			}
		}
		check()
		for _, i := range order {
			l.Remove(conns[i])
			want = slices.DeleteFunc(want, func(c *conn) bool { return c == conns[i] })
			check()
		}
		l.Add(conns[0]) // it keeps nothing of where it was
		want = []*conn{conns[0]}
		check()
	}
}

// All that wait until there is no connection go on when the last has ended, and not before.
func TestTheLastEndIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, a, b := newList(), new(conn), new(conn)
		l.Add(a)
		l.Add(b)
		woken := 0
		done := make(chan error)
		for range 2 {
			go func() { done <- l.AwaitEmpty(t.Context()) }()
		}
		l.Remove(b)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the wait ended with %v while a connection was left", err)
		default:
		}
		for l.Remove(a); woken < 2; woken++ {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if err := l.AwaitEmpty(t.Context()); err != nil {
			t.Fatalf("without a connection: %v", err)
		}
	})
}

// A wait ends when its time is over, with the error that says so.
func TestAWaitForTheLastEndIsBounded(t *testing.T) {
	t.Parallel()
	l := newList()
	l.Add(new(conn))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.AwaitEmpty(ctx); err != context.Canceled {
		t.Fatalf("the wait ended with %v", err)
	}
}
