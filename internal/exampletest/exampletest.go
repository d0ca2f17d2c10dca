// Package exampletest runs the example programs as processes of their own, and has a client for
// them.
package exampletest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/transcript"
)

// asProgram is set in processes that are to run the program in place of the tests.
const asProgram = "WSKIT_TEST_PROGRAM"

// Main is for TestMain: it runs the tests or, in a process that Start began, the program.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// Server is a running program.
type Server struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

// Start runs the program with these arguments, on a port that the system chooses. It waits until
// the program writes the URL of its WebSocket endpoint to its standard error. The process is
// killed at the end of the test.
func Start(t *testing.T, args ...string) *Server {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	process.DieWithParent(cmd)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, cmd: cmd}
	t.Cleanup(s.Kill)
	log := &transcript.Transcript{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the program printed:\n%s", log)
		}
	})
	lines := bufio.NewScanner(io.TeeReader(out, log))
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "addr="); ok {
			s.addr, _, _ = strings.Cut(rest, " ")
			go func() {
				for lines.Scan() { // so that the process can go on writing
				}
			}()
			return s
		}
	}
	t.Fatal("the program ended")
	return nil
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.addr }

// Kill ends the process at once, as a crash does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Frame is a frame of a server.
type Frame struct {
	Type string
	Meta struct {
		CorrelationID string
	}
	Payload json.RawMessage
}

// Client is a connection. It is for one goroutine.
type Client struct {
	t       *testing.T
	ws      *websocket.Conn
	pending []Frame // received, and not yet returned
	n       int
}

// Dial opens a connection with a token. When it returns, messages of the client are handled, so that
// the connection can be addressed.
func (s *Server) Dial(token string) *Client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), poll.Guard)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+s.addr+"/ws", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	c := &Client{t: s.t, ws: ws}
	c.Send("__heartbeat", nil, nil)
	c.Expect("__heartbeat_ack")
	return c
}

// Send sends a message. Members of meta may be nil.
func (c *Client) Send(typ string, payload any, meta map[string]any) {
	c.t.Helper()
	frame, err := json.Marshal(map[string]any{"type": typ, "meta": meta, "payload": payload})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), poll.Guard)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, frame); err != nil {
		c.t.Fatal(err)
	}
}

// Request sends a request, with an idempotency key unless that is empty, and returns its answer.
func (c *Client) Request(typ string, payload any, key string) Frame {
	c.t.Helper()
	c.n++
	id := strconv.Itoa(c.n)
	c.Send(typ, payload, map[string]any{"correlationId": id, "idempotencyKey": key})
	return c.next("the answer to "+typ, func(f Frame) bool { return f.Meta.CorrelationID == id })
}

// Expect returns the next frame of a type. Frames of other types are kept.
func (c *Client) Expect(typ string) Frame {
	c.t.Helper()
	return c.next(typ, func(f Frame) bool { return f.Type == typ })
}

// Pending counts the frames of a type that were received and not yet returned.
func (c *Client) Pending(typ string) (n int) {
	for _, f := range c.pending {
		if f.Type == typ {
			n++
		}
	}
	return n
}

// ExpectClose reads until the server closes the connection, and returns the code.
func (c *Client) ExpectClose() errors.CloseCode {
	for {
		if _, err := c.read(); err != nil {
			return errors.CloseCode(websocket.CloseStatus(err))
		}
	}
}

func (c *Client) next(what string, match func(Frame) bool) Frame {
	c.t.Helper()
	for {
		if i := slices.IndexFunc(c.pending, match); i >= 0 {
			f := c.pending[i]
			c.pending = slices.Delete(c.pending, i, i+1)
			return f
		}
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("%s does not come: %v; there are %+v", what, err, c.pending)
		}
		c.pending = append(c.pending, f)
	}
}

func (c *Client) read() (f Frame, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), poll.Guard)
	defer cancel()
	_, text, err := c.ws.Read(ctx)
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

// Payload decodes the payload of a frame that has a type.
func Payload[T any](c *Client, f Frame, typ string) (v T) {
	c.t.Helper()
	if f.Type != typ {
		c.t.Fatalf("got %s %s, want %s", f.Type, f.Payload, typ)
	}
	if f.Payload == nil { // all that it could have is optional
		return v
	}
	if err := json.Unmarshal(f.Payload, &v); err != nil {
		c.t.Fatal(err)
	}
	return v
}
