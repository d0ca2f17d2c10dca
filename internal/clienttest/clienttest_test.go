package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/leaktest"
	"github.com/wskit/wskit/internal/poll"
)

// programVariable has the options of the program, which this one is then.
const programVariable = "WSKIT_CLIENTTEST"

func TestMain(m *testing.M) {
	if options := os.Getenv(programVariable); options != "" {
		Program(options)
		return
	}
	leaktest.Main(m, poll.Guard)
}

// client is a client without a mind of its own.
type client struct {
	t  *testing.T
	ws *websocket.Conn
}

func (s *Server) dial(t *testing.T, token string) (*client, *http.Response, error) {
	t.Helper()
	o := &websocket.DialOptions{Subprotocols: []string{"wskit"}}
	if token != "" {
		o.Subprotocols = append(o.Subprotocols, "bearer."+token)
	}
	ctx, cancel := context.WithTimeout(context.Background(), poll.Guard)
	defer cancel()
	ws, answer, err := websocket.Dial(ctx, s.URL, o)
	if err != nil {
		return nil, answer, err
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{t, ws}, answer, nil
}

func (s *Server) client(t *testing.T, token string) *client {
	t.Helper()
	c, _, err := s.dial(t, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) send(frame string) {
	c.t.Helper()
	if err := c.ws.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), poll.Guard)
	defer cancel()
	_, text, err := c.ws.Read(ctx)
	return string(text), err
}

func (c *client) expect(want string) {
	c.t.Helper()
	if got, err := c.next(); err != nil || !strings.Contains(got, want) {
		c.t.Fatalf("got %s, %v; want %s", got, err, want)
	}
}

// count makes a request with a key, again while the answer is that it may be, as when Redis answers late.
func (c *client) count(want int) {
	c.t.Helper()
	for {
		c.send(`{"type":"count","meta":{"correlationId":"1","idempotencyKey":"k"},"payload":{"id":"x"}}`)
		got, err := c.next()
		if err == nil && strings.Contains(got, `"retryable":true`) {
			continue
		}
		if err != nil || !strings.Contains(got, fmt.Sprintf(`"n":%d`, want)) {
			c.t.Fatalf("got %s, %v; want %d", got, err, want)
		}
		return
	}
}

func (c *client) expectClose(code int, reason string) {
	c.t.Helper()
	for {
		_, err := c.next()
		if err == nil {
			continue
		}
		closed, ok := errors.AsType[websocket.CloseError](err)
		if !ok || int(closed.Code) != code || closed.Reason != reason {
			c.t.Fatalf("the connection ends with %v; want %d %s", err, code, reason)
		}
		return
	}
}

func request(typ, id, payload string) string {
	return fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q},"payload":%s}`, typ, id, payload)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoutesAndRecord(t *testing.T) {
	s := Start(t, Options{})
	c := s.client(t, "ann")
	c.send(request("echo", "1", `{"id":"e1","text":"hi"}`))
	c.expect(`{"type":"echo.reply","meta":{"correlationId":"1"},"payload":{"id":"e1","text":"hi"}}`)
	for n := range 2 {
		c.send(request("count", "2", `{"id":"c1"}`))
		c.expect(fmt.Sprintf(`"n":%d`, n+1))
		c.send(`{"type":"count.once","meta":{"correlationId":"3","idempotencyKey":"k"},"payload":{"id":"c2"}}`)
		c.expect(`"n":1`)
	}
	c.send(request("progress", "4", `{"n":2}`))
	c.expect(`"payload":{"n":1}`)
	c.expect(`"payload":{"n":2}`)
	c.expect(`progress.reply`)
	c.send(request("slow", "5", `{"ms":60000}`))
	c.send(`{"type":"$ws:abort","meta":{"correlationId":"5"}}`)
	c.expect(`CANCELLED`)
	c.send(request("fail", "6", `{"text":"DOOR_IS_RED","ms":70}`))
	c.expect(`"code":"DOOR_IS_RED","message":"as asked","retryable":true,"retryAfterMs":70`)
	c.send(request("big", "7", `{"n":3}`))
	c.expect(`"text":"xxx"`)
	c.send(request("whoami", "8", `{}`))
	c.expect(`"payload":"ann"`)
	c.send(request("join", "9", `{"topic":"history:a"}`))
	c.expect(`$ws:subscribed`)
	c.expect(`join.reply`)
	if p, err := s.Publish(PublishOptions{Topic: "history:a", N: 2}); err != nil || p != (Published{1, 2}) {
		t.Errorf("published %v, %v", p, err)
	}
	c.expect(`"n":1`)
	c.expect(`"n":2`)
	c.send(request("ask", "10", `{"text":"sure?"}`))
	c.expect(`"type":"confirm"`)
	c.send(`{"type":"$ws:answer","meta":{"correlationId":"$ws:1"},"payload":{"yes":true}}`)
	c.expect(`"payload":{"yes":true}`)
	must(t, s.FloodLimit(FloodLimit{Capacity: 2, Refill: 1, PerMs: 60_000}))
	for range 2 {
		c.send(request("limited", "11", `{}`))
		c.expect(`limited.reply`)
	}
	c.send(request("limited", "12", `{}`))
	c.expect(`RESOURCE_EXHAUSTED`)

	l := s.Log()
	if l.Executions["c1"] != 2 || l.Executions["c2"] != 1 || l.Executions["e1"] != 1 {
		t.Errorf("executions %v", l.Executions)
	}
	if len(l.Attempts) != 1 || l.Attempts[0].Outcome != "101" || l.Attempts[0].Token != "ann" || l.Attempts[0].ID == "" {
		t.Errorf("attempts %+v", l.Attempts)
	}
	if f := l.Received[2]; f.Type != "count.once" || f.IdempotencyKey != "k" || !f.Whole {
		t.Errorf("received %+v", f)
	}
	if e := l.Executed[0]; e.Type != "echo" || e.ID != "e1" || e.User != "ann" || e.Conn != l.Attempts[0].ID {
		t.Errorf("executed %+v", e)
	}
}

// A cut leaves the client exactly the bytes that it says, in both directions.
func TestCuts(t *testing.T) {
	s := Start(t, Options{})
	for _, cut := range []Cut{
		{At: 0}, {At: 1}, {Type: "echo.reply", At: 7}, {Type: "echo.reply", At: -1}, {At: 1000}, {Dir: up, At: 0}, {Dir: up, At: 5},
		{Dir: up, Type: "echo", At: 1 << 20}, {Frame: 1, At: 3}, {How: "fin", At: 4},
	} {
		t.Run(fmt.Sprintf("%+v", cut), func(t *testing.T) {
			must(t, s.ClearLog(struct{}{}))
			c := s.client(t, "")
			must(t, s.Cut(cut))
			for range cut.Frame {
				c.send(request("echo", "0", `{}`))
				c.expect("echo.reply")
			}
			c.send(request("echo", "1", `{"id":"x"}`))
			got, err := c.next()
			l := s.Log()
			if len(l.Cuts) != 1 {
				t.Fatalf("%d cuts; the client gets %s, %v", len(l.Cuts), got, err)
			}
			done := l.Cuts[0]
			want := cut.At
			if want < 0 {
				want += done.Of
			}
			if want = min(want, done.Of); done.Byte != want {
				t.Errorf("the cut is %+v", done)
			}
			arrives := cut.Dir == up && done.Byte == done.Of
			if cut.Dir != up || arrives {
				// What was handled is known without the client.
				poll.Until(t, "it is executed", func() bool { return s.Log().Executions["x"] == 1 })
			} else if n := l.Executions["x"]; n != 0 {
				t.Errorf("executed %d times", n)
			}
			if whole := cut.Dir != up && done.Byte == done.Of; whole != (err == nil) && cut.Dir != up {
				t.Errorf("the client gets %q, %v", got, err)
			}
		})
	}
	c := s.client(t, "")
	must(t, s.Cut(Cut{After: new(70)}))
	c.send(request("echo", "1", `{}`)) // 62 bytes come back
	c.expect("echo.reply")
	c.send(request("echo", "1", `{}`))
	if got, err := c.next(); err == nil {
		t.Errorf("after 70 bytes the client gets %s", got)
	}
	must(t, s.Cut(Cut{Type: "handshake", At: 20}))
	if _, _, err := s.dial(t, ""); err == nil {
		t.Error("the handshake was not cut")
	}
}

// So many bytes of a frame arrive, whatever the record says.
func TestBytesBeforeACut(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	for _, at := range []int{0, 1, 2, 7, 40} {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.URL, "ws://"), "/ws"))
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(poll.Guard)))
		_, err = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		must(t, err)
		from := bufio.NewReader(c)
		_, err = readHead(from)
		must(t, err)
		must(t, s.Cut(Cut{At: at, How: "fin"}))
		f := makeFrame(opText, []byte(request("echo", "1", `{}`)), up)
		_, err = c.Write(f.raw)
		must(t, err)
		if got, err := io.ReadAll(from); err != nil || len(got) != at {
			t.Errorf("%d bytes arrive, %v; want %d", len(got), err, at)
		}
		must(t, c.Close())
	}
}

func TestFaultsOfTheNetwork(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	c := s.client(t, "")
	must(t, s.Stall(StallOptions{}))
	c.send(request("echo", "1", `{"id":"a"}`))
	poll.Until(t, "the proxy holds it, or it is handled", func() bool {
		return s.proxy.holds() || s.Log().Executions["a"] > 0
	})
	if n := s.Log().Executions["a"]; n != 0 {
		t.Error("a stalled message was handled")
	}
	must(t, s.Resume(struct{}{}))
	c.expect("echo.reply")

	must(t, s.Alter(Alter{Type: "echo.reply", Do: "twice"}))
	must(t, s.Alter(Alter{Type: "echo.reply", Do: "replace", With: `{"type":"other","meta":{"correlationId":"{{id}}"}}`}))
	must(t, s.Alter(Alter{Dir: up, Type: "echo", Do: "drop"}))
	c.send(request("echo", "2", `{}`))
	c.send(request("echo", "3", `{}`))
	c.expect(`"3"`)
	c.expect(`"3"`)
	c.send(request("echo", "4", `{}`))
	c.expect(`{"type":"other","meta":{"correlationId":"4"}}`)
	must(t, s.Inject(InjectOptions{Frame: `{"type":"{{pad}}"}`, Pad: 3, Times: 2}))
	c.expect(`{"type":"xxx"}`)
	c.expect(`{"type":"xxx"}`)

	must(t, s.Zombie(struct{}{}))
	c.send(request("echo", "5", `{"id":"z"}`))
	other := s.client(t, "")
	other.send(request("echo", "6", `{}`))
	other.expect("echo.reply")
	if n := s.Log().Executions["z"]; n != 0 {
		t.Error("a silent connection has carried a message")
	}

	must(t, s.Slow(SlowOptions{BytesPerSecond: 1000}))
	begun := s.Log().NowMs
	other.send(request("big", "7", `{"n":200}`))
	other.expect("big.reply")
	if took := s.Log().NowMs - begun; took < 200 {
		t.Errorf("300 bytes at 1,000 a second took %v ms", took)
	}
}

// holds reports whether a frame waits for the end of a stall.
func (p *proxy) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held > 0
}

// A connection whose client sends no more is ended, even if what the server sends does not get through.
func TestEndOfOneDirection(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	c := s.client(t, "")
	must(t, s.Stall(StallOptions{Dir: down}))
	c.send(request("echo", "1", `{}`))
	poll.Until(t, "the proxy holds the answer", s.proxy.holds)
	_ = c.ws.CloseNow()
	poll.Until(t, "the connection has ended", func() bool { return s.Log().Attempts[0].EndedMs > 0 })
}

// A TCP connection that its client has not used yet is an attempt when it asks for something on it.
func TestSpareConnection(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	spare, err := net.Dial("tcp", s.proxy.listener.Addr().String())
	must(t, err)
	defer spare.Close()
	s.client(t, "ann") // it was accepted after the spare one
	must(t, s.ClearLog(struct{}{}))
	_, err = io.WriteString(spare, "GET /spare HTTP/1.1\r\nHost: example.com\r\n\r\n")
	must(t, err)
	poll.Until(t, "the attempt is in the record", func() bool {
		all := s.Log().Attempts
		return len(all) == 1 && all[0].Conn == 2 && all[0].Path == "/spare" && all[0].Outcome != ""
	})
}

func TestServerGoesAndComes(t *testing.T) {
	t.Parallel()
	for _, redis := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis %v", redis), func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{Redis: redis, Servers: 2})
			url := s.URL
			c := s.client(t, "ann")
			c.count(1)
			drained := make(chan error)
			go func() { drained <- s.Drain(DrainOptions{RetryAfterMs: new(250.0)}) }()
			c.expectClose(1001, `{"retryAfterMs":250}`)
			must(t, <-drained)
			must(t, s.Use(UseOptions{Server: 1}))
			c = s.client(t, "ann")
			c.count(1)
			if n := s.Log().Executions["x"]; n != 1 {
				t.Errorf("executed %d times", n)
			}
			must(t, s.Stop(StopOptions{Kill: true}))
			if _, err := c.next(); websocket.CloseStatus(err) != -1 {
				t.Errorf("a killed server ends with %v", err)
			}
			if _, _, err := s.dial(t, ""); err == nil {
				t.Error("a client connects to no server")
			}
			must(t, s.Start(StartOptions{Lose: true}))
			c = s.client(t, "ann")
			c.count(2)
			if s.URL != url {
				t.Error("the address has changed")
			}
			if redis {
				must(t, s.StopRedis(struct{}{}))
				c.send(request("say", "2", `{"topic":"history:a"}`))
				c.expect(`UNAVAILABLE`)
				must(t, s.StartRedis(struct{}{}))
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{NeedToken: true, ExpiryNoticeMs: 3_600_000})
	refused := func(want int, token string) http.Header {
		t.Helper()
		_, answer, err := s.dial(t, token)
		if err == nil || answer == nil || answer.StatusCode != want {
			t.Fatalf("%v, %v; want %d", answer, err, want)
		}
		return answer.Header
	}
	refused(401, "")
	refused(401, "bad")
	must(t, s.Refuse(RefuseOptions{RetryAfterMs: 1500, Times: 1}))
	if got := refused(503, "ann").Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q", got)
	}
	must(t, s.Refuse(RefuseOptions{Code: "RESOURCE_EXHAUSTED", Times: 1}))
	refused(429, "ann")
	must(t, s.Refuse(RefuseOptions{TCP: true, Times: 1}))
	if _, answer, err := s.dial(t, "ann"); err == nil || answer != nil {
		t.Errorf("%v, %v", answer, err)
	}
	c := s.client(t, "ann")
	must(t, s.Ban(BanOptions{Ms: 60_000, User: "ann"}))
	c.expectClose(4429, `{"retryAfterMs":60000}`)
	refused(429, "ann")
	must(t, s.Door(DoorOptions{MaxPerUser: 1}))
	c = s.client(t, "bob")
	refused(429, "bob")
	must(t, s.Kick(KickOptions{}))
	c.expectClose(1008, "kicked")

	s.client(t, s.NewToken("eve", time.Hour)).expect(`$ws:expiring`)
	s.client(t, s.NewToken("fay", 3*time.Second)).expectClose(4401, "identity expired")
	outcomes := ""
	for _, a := range s.Log().Attempts {
		outcomes += a.Outcome + " "
	}
	if outcomes != "401 401 503 429 refused 101 429 101 429 101 101 " {
		t.Errorf("the attempts are recorded as %s", outcomes)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	must(t, s.Raw(RawOptions{Steps: []Step{
		{Expect: "echo"},
		{Send: `{"type":"echo.reply","meta":{"correlationId":"{{id}}"},"payload":{"n":{{i}}}}`, Repeat: 2},
		{Bytes: "gQF7"}, // {
		{Send: "{{pad}}", Pad: 70_000},
		{Close: 4999, Reason: "as asked"},
	}}))
	c := s.client(t, "ann")
	c.ws.SetReadLimit(1 << 20)
	c.send(request("echo", "1", `{}`))
	c.expect(`{"correlationId":"1"},"payload":{"n":0}`)
	c.expect(`{"correlationId":"1"},"payload":{"n":1}`)
	c.expect(`{`)
	c.expect(strings.Repeat("x", 70_000))
	c.expectClose(4999, "as asked")
	must(t, s.Raw(RawOptions{Steps: []Step{{HTTP: 429, Header: map[string]string{"Retry-After": "7"}}}, Times: 2}))
	for range 2 {
		if _, answer, err := s.dial(t, ""); err == nil || answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "7" {
			t.Errorf("%v, %v", answer, err)
		}
	}
	must(t, s.Raw(RawOptions{Steps: []Step{{Accept: true}, {End: "reset"}}}))
	if _, err := s.client(t, "").next(); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("a reset ends with %v", err)
	}
	must(t, s.Raw(RawOptions{Steps: []Step{{Silent: true}}}))
	silent := s.client(t, "")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := silent.ws.Ping(ctx); err == nil {
		t.Error("a silent script answers a ping")
	}
	s.client(t, "").send(request("echo", "1", `{}`))
}

// The program does over HTTP what the methods do.
func TestProgram(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programVariable+`={"needToken":true}`)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	must(t, err)
	var ready struct{ URL, Control string }
	must(t, json.Unmarshal(line, &ready))
	s := &Server{URL: ready.URL}

	call := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, ready.Control+path, strings.NewReader(body))
		must(t, err)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, string(bytes.TrimSpace(text))
	}
	_, text := call("GET", "/token?user=bob", "")
	var token struct{ Token string }
	must(t, json.Unmarshal([]byte(text), &token))
	c := s.client(t, token.Token)
	c.send(request("whoami", "1", `{}`))
	c.expect(`"bob"`)
	for _, want := range []struct {
		path, body string
		status     int
		answer     string
	}{
		{"/publish", `{"topic":"t","n":3}`, 200, `{"from":1,"to":3}`},
		{"/publish", `{"topc":"t"}`, 400, `/publish: json: unknown field "topc"`},
		{"/cut", `{"dir":"left"}`, 400, `/cut: the direction "left" is neither up nor down`},
		{"/redis/stop", ``, 400, `/redis/stop: there is no Redis; set redis in the options`},
		{"/restart", `{"kill":true,"lose":true,"downMs":10}`, 200, `{}`},
		{"/token", `{"mode":"fail"}`, 200, `{}`},
	} {
		if status, got := call("POST", want.path, want.body); status != want.status || got != want.answer {
			t.Errorf("%s %s: %d %s", want.path, want.body, status, got)
		}
	}
	if status, _ := call("GET", "/token", ""); status != 500 {
		t.Errorf("a failing token endpoint answers %d", status)
	}
	var l Log
	_, text = call("GET", "/log", "")
	must(t, json.Unmarshal([]byte(text), &l))
	if len(l.Attempts) != 1 || l.Attempts[0].Token != token.Token || l.Attempts[0].EndedMs == 0 || len(l.Tokens) != 2 {
		t.Errorf("the record is %+v", l)
	}
	must(t, in.Close())
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("the program also prints %s, %v", rest, err)
	}
	must(t, cmd.Wait())
}
