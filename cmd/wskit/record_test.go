package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/transcript"
	"github.com/wskit/wskit/router"
)

type login struct {
	User     string `json:"user"`
	Password string `json:"password"`
	PIN      string `json:"pin"`
}

// sessionServer has users that count, up to a limit.
func sessionServer(t *testing.T, limit int) (r *router.Router, url string) {
	t.Helper()
	r = router.New(router.Options{Authenticate: func(req *http.Request) (ingress.Identity, error) {
		if ingress.Token(req) != token {
			return ingress.Identity{}, errors.Unauthenticated.New("the token is unknown")
		}
		return ingress.Identity{User: "ann"}, nil
	}})
	router.RPC(r, "login", func(_ *router.Context, l login) (login, error) { return l, nil })
	router.RPC(r, "count", func(c *router.Context, n int) (int, error) {
		if n > limit {
			return 0, errors.ResourceExhausted.New("too many")
		}
		return n, c.Progress(n)
	}, router.RouteOptions{Progress: 0})
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, strings.Replace(s.URL, "http:", "ws:", 1)
}

// A session passes through record, which writes all but secrets; replay makes it again, and says what is answered in
// another way.
func TestRecordAndReplay(t *testing.T) {
	_, url := sessionServer(t, 5)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	var stdout, stderr transcript.Transcript
	c := &command{out: &stdout, err: &stderr}
	ctx, stop := context.WithCancel(t.Context())
	status := make(chan int)
	go func() {
		status <- c.run(ctx, []string{"record", "-listen", "127.0.0.1:0", "-secret", "pin", url, file})
	}()
	var proxy string
	poll.Until(t, "the proxy to listen", func() bool {
		_, rest, found := strings.Cut(stderr.String(), "connect to ")
		proxy, _, _ = strings.Cut(rest, ",")
		return found
	})
	const users = 2
	for range users {
		conn, err := client.Dial(t.Context(), proxy, client.Options{Token: func(context.Context) (string, error) { return token, nil }})
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Request[login](t.Context(), conn, "login", login{"ann", "hunter2", "1234"})
		if err != nil || got.Password != "hunter2" {
			t.Fatalf("%+v, %v", got, err)
		}
		for n := range 8 {
			if _, err := client.Request[int](t.Context(), conn, "count", n); (err != nil) != (n > 5) {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Dial(t.Context(), proxy); errors.CodeOf(err) != errors.Unauthenticated && !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
	stop()
	if got := poll.Receive(t, status, "record to end"); got != done {
		t.Fatalf("%d: %s", got, stderr.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "1234", token} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the recording has %q:\n%s", secret, text)
		}
	}
	at := -1.0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var l recorded
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.At < at || l.Conn < 1 || l.Conn > users {
			t.Fatalf("%v after %v: %s", err, at, lines.Text())
		}
		at = l.At
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	for _, limit := range []int{5, 3} {
		fresh, url := sessionServer(t, limit)
		status, out, problems := run(t, "", "replay", "-speed", "10", url, file)
		same := limit == 5
		if (status == done) != same || problems != "" {
			t.Errorf("limit %d: %d\n%s%s", limit, status, out, problems)
		}
		if !same && (strings.Count(out, "RESOURCE_EXHAUSTED, and was OK\n") != 2*users || !strings.HasSuffix(out, "18 requests on 2 connections, 4 answered in another way\n")) {
			t.Error(out)
		}
		for _, typ := range fresh.Stats().Types {
			if n := typ.Outcomes["OK"] + typ.Outcomes[errors.ResourceExhausted]; typ.Type == "count" && n != 8*users {
				t.Errorf("%d messages are made again: %v", n, typ.Outcomes)
			}
		}
	}
}

// What cannot be recorded or replayed fails, and says why.
func TestRecordRefuses(t *testing.T) {
	_, url := sessionServer(t, 5)
	file := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(file, []byte("no recording\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"record", url, file}, "exists"},
		{[]string{"record", "-listen", "nowhere:x", url, file + "2"}, "listen"},
		{[]string{"replay", url, file}, "line 1"},
		{[]string{"replay", url, file + "3"}, "no such file"},
	} {
		if status, _, problems := run(t, "", c.args...); status != failed || !strings.Contains(problems, c.says) {
			t.Errorf("%q: %d %s", c.args, status, problems)
		}
	}
}
