package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/examples/chat/server"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
)

// start starts the chat, and returns the URL of its WebSockets.
func start(t *testing.T, program string, args ...string) (url string, chat *exec.Cmd) {
	t.Helper()
	chat = exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	process.DieWithParent(chat)
	out, err := chat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chat.Process.Kill(); _ = chat.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the chat says %q, and then: %v", line, err)
	}
	return "ws://" + regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line) + "/ws", chat
}

// tab is a client of the chat, which is in a room.
type tab struct {
	*client.Client
	room     server.Joined
	messages chan server.Message
	states   chan server.Room
}

func dial(t *testing.T, url, name string) *tab {
	t.Helper()
	c, err := client.Dial(t.Context(), url, client.Options{
		Token: func(context.Context) (string, error) { return fmt.Sprintf("%016s", name), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	one := &tab{Client: c, messages: make(chan server.Message, 100), states: make(chan server.Room, 100)}
	client.On(c, "chat.message", func(_ context.Context, m server.Message, _ client.Meta) { one.messages <- m })
	client.On(c, "room.state", func(_ context.Context, r server.Room, _ client.Meta) { one.states <- r })
	if one.room, err = client.Request[server.Joined](t.Context(), c, "room.join", server.Join{Room: "lobby", Name: name}); err != nil {
		t.Fatal(err)
	}
	return one
}

func (one *tab) say(t *testing.T, id int, text string) {
	t.Helper()
	_, err := client.Request[server.Sent](
		t.Context(), one.Client, "chat.send", server.Send{ID: fmt.Sprintf("%032x", id), Text: text},
	)
	if err != nil {
		t.Fatal(err)
	}
}

// Two servers on one database are one chat: with its messages, its history and its members, also when one is killed.
func TestTwoServers(t *testing.T) {
	s := pgtest.Start(t)
	program := filepath.Join(t.TempDir(), "chat")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the chat: %v\n%s", err, out)
	}
	one, _ := start(t, program, "-postgres", s.URL())
	two, killed := start(t, program, "-postgres", s.URL())
	ann, bob := dial(t, one, "ann"), dial(t, two, "bob")
	ann.say(t, 1, "hello")
	if m := poll.Receive(t, bob.messages, "a message from the other server"); m.Text != "hello" {
		t.Errorf("bob gets %+v", m)
	}
	bob.say(t, 2, "hi")
	for _, want := range []string{"hello", "hi"} {
		if m := poll.Receive(t, ann.messages, "a message"); m.Text != want {
			t.Errorf("ann gets %+v, want %s", m, want)
		}
	}
	if cat := dial(t, one, "cat"); len(cat.room.Members) != 3 || len(cat.room.Messages) != 2 {
		t.Errorf("the room of a new tab has %+v", cat.room)
	}
	_ = killed.Process.Kill()
	for len(poll.Receive(t, ann.states, "the room without bob").Members) != 2 {
	}
	ann.say(t, 3, "where is bob?")
}

// The URL may have a password, which is not printed.
func TestPasswordsAreNotPrinted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "chat")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the chat: %v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"-postgres", "postgres://app:PASSWORD@[::1"}, {"-postgres", "postgres://app:PASSWORD@127.0.0.1:1/app"},
		{"-postgres", "postgres://app:PASSWORD@localhost", "-redis", "redis://localhost"},
	} {
		out, err := exec.Command(program, args...).CombinedOutput()
		if err == nil || len(out) == 0 || regexp.MustCompile("PASSWORD").Match(out) {
			t.Errorf("%q ends with %v and says %q", args, err, out)
		}
	}
}
