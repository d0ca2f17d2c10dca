package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/exampletest"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

func TestContractOfThePageIsCurrent(t *testing.T) {
	exampletest.CheckContract(t, describe)
}

// What the page sends and reads is what the server reads and sends.
func TestPageKeepsTheContract(t *testing.T) {
	exampletest.CheckTypes(t)
}

const ann = "a random token of ann"

// with runs a test in a bubble, with a server whose model says a word every 60 ms.
func with(t *testing.T, test func(t *testing.T, s *routertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := newRouter(memory.New(), storyteller(60*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		test(t, routertest.New(t, r))
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// read reads an answer until something is so, or to its end.
func read(c *routertest.Client, id string, until func(run.Output) bool) (text string, end *run.End) {
	whole := routertest.ExpectReply[run.Whole](c.Request("run.attach", run.Ref{Run: id}))
	text, end = whole.Text, whole.End
	for end == nil {
		o := routertest.ExpectEvent[run.Output](c, "run.output")
		text, end = text+o.Text, o.End
		if until(o) {
			break
		}
	}
	return text, end
}

func always(run.Output) bool { return false }

func steer(c *routertest.Client, q run.Steer) bool {
	return routertest.ExpectReply[run.Steered](c.Request("run.steer", q)).Taken
}

// A question and its answer are on all devices of the user, also on one that comes later, and on no others.
func TestDevices(t *testing.T) {
	with(t, func(t *testing.T, s *routertest.Server) {
		phone := s.Dial(routertest.DialOptions{Token: ann})
		stranger := s.Dial(routertest.DialOptions{Token: "a random token of bob"})
		id := routertest.ExpectReply[run.Began](phone.Request("ask", Ask{"Why?"})).Run
		text, _ := read(phone, id, func(o run.Output) bool { return o.Question != nil })
		if !strings.HasPrefix(text, "You have asked: “Why?” There was once") || strings.Count(text, " ") != long {
			t.Errorf("before the question there are %d words: %q", strings.Count(text, " "), text)
		}
		desk := s.Dial(routertest.DialOptions{Token: ann})
		if a := routertest.ExpectEvent[Asked](desk, "asked"); a.Run != id || a.Text != "Why?" {
			t.Errorf("another device gets %+v", a)
		}
		if !steer(desk, run.Steer{Run: id, To: "1", Data: json.RawMessage("true")}) {
			t.Error("the answer to the question was not taken")
		}
		if text, end := read(desk, id, always); !strings.HasSuffix(text, "on long evenings.") ||
			end.State != run.Done {
			t.Errorf("%q, %+v", text, end)
		}
		stranger.Request("run.attach", run.Ref{Run: id}).ExpectError(errors.NotFound)
		for _, f := range stranger.Frames() {
			if f.Type != "$ws:subscribed" {
				t.Errorf("a stranger gets %s", f)
			}
		}
	})
}

// What the user says changes the answer, and "no" ends it.
func TestSteering(t *testing.T) {
	with(t, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: ann})
		id := routertest.ExpectReply[run.Began](c.Request("ask", Ask{"Why?"})).Run
		time.Sleep(time.Second)
		if !steer(c, run.Steer{Run: id, Data: json.RawMessage(`"shorter"`)}) {
			t.Error("what the user says was not taken")
		}
		if text, end := read(c, id, always); !strings.HasSuffix(text, "“shorter”, you say. "+short) ||
			end.State != run.Done {
			t.Errorf("%q, %+v", text, end)
		}
		id = routertest.ExpectReply[run.Began](c.Request("ask", Ask{"Why?"})).Run
		read(c, id, func(o run.Output) bool { return o.Question != nil })
		steer(c, run.Steer{Run: id, To: "1", Data: json.RawMessage("false")})
		if text, end := read(c, id, always); strings.Count(text, " ") != long || end.State != run.Done {
			t.Errorf("%q, %+v", text, end)
		}
	})
}

// Each word is paid from the budget of the user, and no more.
func TestBudget(t *testing.T) {
	with(t, func(t *testing.T, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Token: ann})
		id := routertest.ExpectReply[run.Began](c.Request("ask", Ask{"Why?"})).Run
		read(c, id, func(o run.Output) bool { return o.Question != nil })
		routertest.ExpectReply[run.End](c.Request("run.stop", run.Ref{Run: id}))
		synctest.Wait()
		left := routertest.ExpectReply[run.Left](c.Request("run.budget", struct{}{}))
		if left.Left != 2000-long || left.Limit != 2000 {
			t.Errorf("%+v are left after %d words", left, long)
		}
	})
}

// An endpoint is read as it streams; what it says beyond that ends the answer, and nothing of it is shown.
func TestEndpoint(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var q struct {
			Model    string
			Messages []message
			Stream   bool
		}
		if json.NewDecoder(req.Body).Decode(&q) != nil || q.Model != "small" || !q.Stream || len(q.Messages) != 1 ||
			req.Header.Get("Authorization") != "Bearer key" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\n")
		for _, word := range []string{"", "Be", "cause.", ""} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	talk := []message{{"user", "Why?"}}
	var text string
	for word, err := range endpoint(s.URL, "small", "key")(t.Context(), talk) {
		if err != nil {
			t.Fatal(err)
		}
		text += word
	}
	if text != "Because." {
		t.Errorf("the endpoint says %q", text)
	}
	for _, err := range endpoint(s.URL, "small", "another key")(t.Context(), talk) {
		if err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("a refusal is %v", err)
		}
	}
}
