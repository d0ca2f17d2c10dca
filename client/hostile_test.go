package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/internal/clienttest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/transcript"
)

// hostile is a server in a process of its own, whose memory is not counted here.
type hostile struct {
	t            *testing.T
	url, control string
}

func startHostile(t *testing.T) *hostile {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programVariable+"=1")
	log := &transcript.Transcript{}
	cmd.Stderr = log
	process.DieWithParent(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server printed:\n%s", log)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL, Control string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	return &hostile{t, ready.URL, ready.Control}
}

// plays has the next connection served by a script.
func (h *hostile) plays(times int, steps ...clienttest.Step) {
	h.t.Helper()
	h.post("/raw", clienttest.RawOptions{Steps: steps, Times: times})
}

func (h *hostile) post(path string, options any) {
	h.t.Helper()
	body, err := json.Marshal(options)
	if err != nil {
		h.t.Fatal(err)
	}
	answer, err := http.Post(h.control+path, "application/json", bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %s", path, text)
	}
}

// heap is the memory in use, in MiB.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// Whatever a server sends, the client keeps a bounded part of it.
func TestMemoryAgainstAHostileServer(t *testing.T) {
	h := startHostile(t)
	const big, many = 128 << 10, 48 // 6 MiB
	subscribe := clienttest.Step{Send: `{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"t"}}`, Repeat: many}
	for name, steps := range map[string][]clienttest.Step{
		"events without a handler": {{Send: `{"type":"other{{i}}","payload":"{{pad}}"}`, Repeat: many, Pad: big}},
		"types":                    {{Send: `{"type":"{{i}}{{pad}}"}`, Repeat: many, Pad: big}},
		"positions":                {subscribe, {Send: `{"type":"other","meta":{"topic":"t{{i}}","pos":"{{pad}}"}}`, Repeat: many, Pad: big}},
		"resets":                   {subscribe, {Send: `{"type":"$ws:reset","payload":{"topic":"t{{i}}","reason":"epoch","pos":"{{pad}}"}}`, Repeat: many, Pad: big}},
		"reasons":                  {subscribe, {Send: `{"type":"$ws:reset","payload":{"topic":"t{{i}}","reason":"{{pad}}","pos":"p"}}`, Repeat: many, Pad: big}},
		"tickets":                  {{Send: `{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"{{pad}}"}}`, Repeat: many, Pad: big}},
		"names of topics":          {{Send: `{"type":"$ws:subscribed","payload":{"topic":"{{i}}{{pad}}","pos":"p","ticket":"t"}}`, Repeat: many, Pad: big}},
		"topics":                   {{Send: `{"type":"$ws:subscribed","payload":{"topic":"{{i}}{{pad}}","pos":"p","ticket":"t"}}`, Repeat: 6_000, Pad: 1000}},
		"progress that is not read": {
			{Expect: "slow"}, {Send: `{"type":"$ws:rpc-progress","meta":{"correlationId":"{{id}}"},"payload":"{{pad}}"}`, Repeat: many, Pad: big},
		},
		"questions that fail": slices.Repeat([]clienttest.Step{
			{Send: `{"type":"fails","meta":{"correlationId":"$ws:{{i}}"}}`, Repeat: 500}, {SleepMs: 50}, // the answers are written
		}, 5),
		"questions that hang": {{Send: `{"type":"hangs","meta":{"correlationId":"$ws:{{i}}"},"payload":"{{pad}}"}`, Repeat: 1200, Pad: 5000}},
		"errors":              {{Send: `{"type":"ERROR","payload":{"code":"C","message":"{{pad}}"}}`, Repeat: many, Pad: big}},
		"answers to nothing":  {{Send: `{"type":"x","meta":{"correlationId":"no{{i}}"},"payload":"{{pad}}"}`, Repeat: many, Pad: big}},
	} {
		t.Run(name, func(t *testing.T) {
			last := clienttest.Step{Send: `{"type":"$ws:abort","meta":{"correlationId":"$ws:last"}}`}
			h.plays(1, append([]clienttest.Step{{Expect: "begin"}}, append(steps, last, clienttest.Step{Expect: "end"}, clienttest.Step{Send: `{"type":"end.reply","meta":{"correlationId":"{{id}}"}}`})...)...)
			hold := make(chan struct{})
			defer close(hold)
			o := client.Options{
				OnGap:   func(client.Gap) {},
				OnError: func(string, error) {},
				Setup: func(c *client.Client) {
					client.On(c, "never", func(context.Context, string, client.Meta) {})
					client.Answer(c, "hangs", func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() })
					client.Answer(c, "fails", func(context.Context, string) (string, error) { return "", errors.New(strings.Repeat("x", 10_000)) })
				},
			}
			c := dial(t, strings.TrimPrefix(h.url, "ws://"), o)
			if name == "questions that fail" { // while a handler of the application does not return
				client.On(c, "held", func(context.Context, struct{}, client.Meta) { <-hold })
				h.post("/inject", clienttest.InjectOptions{Frame: `{"type":"held"}`})
			}
			before := heap()
			if err := client.Send(within(t), c, "begin", nil); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 4*poll.Guard)
			call := client.Follow[string, string](ctx, c, "slow", nil)
			// The connection may end when questions come faster than their answers can be written.
			if _, err := client.Request[struct{}](ctx, c, "end", nil); err != nil && !strings.HasPrefix(name, "questions") {
				t.Fatal(err)
			}
			grown := heap() - before
			t.Logf("%.1f MiB", grown)
			most := 3.0
			if name == "questions that fail" { // their errors wait to be reported
				most = 8
			}
			if grown > most {
				t.Errorf("the client keeps %.1f MiB", grown)
			}
			cancel()
			runtime.KeepAlive(call)
		})
	}
}

// The tickets of an answer to $ws:resume are bounded like others.
func TestTicketsOfResumedTopicsAreBounded(t *testing.T) {
	h := startHostile(t)
	large := `{"type":"$ws:resumed","meta":{"correlationId":"{{id}}"},"payload":{"topics":[` +
		strings.Repeat(`{"resumed":true,"ticket":"{{pad}}"},`, 63) + `{"resumed":true,"ticket":"{{pad}}"}]}}`
	steps := []clienttest.Step{{Accept: true}}
	for range 15 {
		steps = append(steps, clienttest.Step{Expect: "$ws:resume"}, clienttest.Step{Send: large, Pad: 16_000})
	}
	h.plays(1, clienttest.Step{Send: `{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"t"}}`, Repeat: 960},
		clienttest.Step{Expect: "echo"}, clienttest.Step{Close: 1001})
	c := dial(t, strings.TrimPrefix(h.url, "ws://"), client.Options{})
	h.plays(1, append(steps, clienttest.Step{Expect: "end"}, clienttest.Step{Send: `{"type":"end.reply","meta":{"correlationId":"{{id}}"}}`})...)
	before := heap()
	_, _ = client.Request[struct{}](within(t), c, "echo", nil)
	if _, err := client.Request[struct{}](within(t), c, "end", nil); err != nil {
		t.Fatal(err)
	}
	if grown := heap() - before; grown > 8 {
		t.Errorf("the client keeps %.1f MiB", grown)
	}
}

// Every type of the protocol with every kind of meta and payload: the client goes on.
func TestFramesOfEveryKind(t *testing.T) {
	t.Parallel()
	h := startHostile(t)
	wrong := []string{"null", "0", "-1", "1e308", `"text"`, "[]", "[null]", "{}", "true", `{"__proto__":{}}`}
	frames := append([]string{"{", "\x00", `"`, strings.Repeat("[", 20_000), `{"type":`, `{"type":null}`, `{"type":7,"payload":{}}`}, wrong...)
	for _, typ := range []string{
		"said", "echo.reply", "ERROR", "RPC_ERROR", "confirm", "$ws:rpc-progress", "$ws:subscribed", "$ws:reset", "$ws:resumed", "$ws:gap",
		"$ws:presence", "$ws:expiring", "$ws:renewed", "$ws:abort", "$ws:answer", "__heartbeat_ack", "",
	} {
		for _, v := range wrong {
			frames = append(frames,
				fmt.Sprintf(`{"type":%q,"meta":%s,"payload":%s}`, typ, v, v),
				fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%s,"topic":%s,"pos":%s},"payload":%s}`, typ, v, v, v, v),
				fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"$ws:9"},"payload":%s}`, typ, v),
				fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"},"payload":%s}`, typ, v),
				fmt.Sprintf(`{"type":%q,"payload":{"topic":%s,"topics":%s,"pos":%s,"ticket":%s,"inMs":%s,"code":%s,"message":%s}}`, typ, v, v, v, v, v, v, v))
		}
	}
	steps := []clienttest.Step{{Expect: "slow"}}
	for _, f := range frames {
		steps = append(steps, clienttest.Step{Send: f}, clienttest.Step{Send: f, Binary: true})
	}
	h.plays(1, append(steps, clienttest.Step{Expect: "end"}, clienttest.Step{Send: `{"type":"end.reply","meta":{"correlationId":"{{id}}"}}`})...)
	c := dial(t, strings.TrimPrefix(h.url, "ws://"), client.Options{
		Token:   func(context.Context) (string, error) { return "ann", nil },
		OnGap:   func(client.Gap) {},
		OnError: func(string, error) {},
		Setup: func(c *client.Client) {
			client.On(c, "said", func(context.Context, clienttest.Payload, client.Meta) {})
			client.Answer(c, "confirm", func(context.Context, clienttest.Payload) (clienttest.Answer, error) { return clienttest.Answer{}, nil })
		},
	})
	client.Follow[clienttest.Payload, clienttest.Payload](within(t), c, "slow", nil)
	if _, err := client.Request[struct{}](within(t), c, "end", nil); err != nil {
		t.Fatal(err)
	}
	if s := c.State(); s.Connections != 1 || s.Phase != client.Connected {
		t.Errorf("the state is %+v", s)
	}
}

// A server that closes each connection at once, or refuses each message, with waits that make no sense, is not asked
// without a pause.
func TestServerWithoutAPause(t *testing.T) {
	t.Parallel()
	waits := []string{"0", "-1", "1e308", "1e309", `"5"`, "null", "[]", "0.0001"}
	type ending struct {
		code   int
		reason string
	}
	endings := []ending{{1001, ""}, {4000, ""}, {1000, ""}, {1011, ""}, {4999, ""}, {1013, "no JSON"}}
	for _, w := range waits {
		endings = append(endings, ending{1001, `{"retryAfterMs":` + w + `}`}, ending{1013, `{"retryAfterMs":` + w + `}`})
	}
	for _, e := range endings {
		t.Run(fmt.Sprint(e.code, " ", e.reason), func(t *testing.T) {
			t.Parallel()
			s := clienttest.Start(t, clienttest.Options{})
			ok(t, s.Raw(clienttest.RawOptions{Times: -1, Steps: []clienttest.Step{{Send: `{"type":"x"}`}, {Close: e.code, Reason: e.reason}}}))
			ctx, cancel := context.WithTimeout(context.Background(), 600*time.Millisecond)
			defer cancel()
			c, err := client.Dial(ctx, s.URL, client.Options{MinBackoff: 50 * time.Millisecond, HTTPClient: quick(client.Options{}).HTTPClient})
			if err == nil {
				<-ctx.Done()
				closeNow(t, c)
			}
			// The pauses are random: 50 ms, 100, 200 … at most, and the first may be none.
			if n := len(s.Log().Attempts); n > 40 {
				t.Errorf("%d attempts in 600 ms", n)
			}
		})
	}
	for _, w := range waits {
		t.Run("refused with a wait of "+w, func(t *testing.T) {
			t.Parallel()
			s := clienttest.Start(t, clienttest.Options{})
			refusal := clienttest.Step{
				Send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"m","retryable":true,"retryAfterMs":` + w + `}}`,
			}
			ok(t, s.Raw(clienttest.RawOptions{Steps: slices.Repeat([]clienttest.Step{{Expect: "limited"}, refusal}, 3000)}))
			c := dial(t, strings.TrimPrefix(s.URL, "ws://"), client.Options{})
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			if _, err := client.Request[struct{}](ctx, c, "limited", nil, client.MessageOptions{WaitOnLimit: true}); err == nil {
				t.Error("no error")
			}
			if n := len(s.Log().Received); n > 3 {
				t.Errorf("the request was sent %d times", n)
			}
			closeNow(t, c)
		})
	}
}

func closeNow(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
	poll.Until(t, "the client is closed", func() bool { return c.State().Phase == client.Closed })
}

// An answer that is an error is one, whatever code it has: "OK" and no code at all are faults of the server.
func TestErrorsWithoutACode(t *testing.T) {
	t.Parallel()
	for _, code := range []string{`"OK"`, `""`, `null`, `7`} {
		s := clienttest.Start(t, clienttest.Options{})
		ok(t, s.Raw(clienttest.RawOptions{Steps: []clienttest.Step{
			{Expect: "echo"}, {Send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":{"code":` + code + `,"message":"m"}}`},
		}}))
		a := act(t, s, "ann", client.Options{})
		_, err := client.Request[payload](within(t), a.Client, "echo", payload{})
		expectCode(t, err, "INTERNAL")
		a.close()
	}
}
