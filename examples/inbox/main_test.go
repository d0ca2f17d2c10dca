package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/internal/poll"
)

// Bob is cut off, ann writes meanwhile, and bob gets all of it when his client is back.
func TestNothingIsMissed(t *testing.T) {
	r := newRouter()
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	t.Cleanup(func() { _ = r.Shutdown(context.Background()) })
	dial := func(user string) *client.Client {
		c, err := client.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), client.Options{
			Token: func(context.Context) (string, error) { return user, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	ann, bob := dial("ann"), dial("bob")
	got := make(chan Received, 100)
	client.On(bob, "letter.received", func(_ context.Context, l Received, _ client.Meta) { got <- l })
	send := func(text string) {
		t.Helper()
		if _, err := client.Request[bool](t.Context(), ann, "letter.send", Letter{"bob", text}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(text string) {
		t.Helper()
		if l := poll.Receive(t, got, "a letter"); l != (Received{"ann", text}) {
			t.Fatalf("got %v, want %s", l, text)
		}
	}
	poll.Until(t, "bob's inbox is followed", func() bool { return r.LocalSubscribers("inbox:bob") == 1 })
	send("first")
	expect("first")
	if _, err := r.User("", "bob").Close(t.Context(), 4000, ""); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		send(fmt.Sprint(i))
	}
	for i := range 20 {
		expect(fmt.Sprint(i))
	}
}
