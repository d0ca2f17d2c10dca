package routertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
)

// DialOptions configure a client.
type DialOptions struct {
	// Token is sent as the subprotocol bearer.<token>.
	//
	// Default: none.
	Token string
	// Header is sent with the handshake.
	//
	// Default: none.
	Header http.Header
	// Query is the request's raw query.
	//
	// Default: none.
	Query string
}

// Client is the client's end of a connection to the server.
type Client struct {
	t      testing.TB
	ws     *websocket.Conn
	done   chan struct{} // closed when the connection has ended
	silent atomic.Bool   // leaves pings unanswered

	answering sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when anything below changes
	inbox   []Frame
	closed  *websocket.CloseError
	err     error
	nextID  int
	answers map[string]func(Frame) // by the type of the question, see Answer
}

// Frame is a frame from the server.
type Frame struct {
	// Type is the message type.
	Type string `json:"type"`
	// Meta has the members of meta that tests look at.
	Meta struct {
		CorrelationID string `json:"correlationId"`
		// Own has the application's own members.
		Own map[string]jsontext.Value `json:",embed"`
	} `json:"meta"`
	// Payload is the payload as JSON; empty if there is none.
	Payload jsontext.Value `json:"payload"`
	// Raw is the frame as it was received.
	Raw jsontext.Value `json:"-"`
}

// Failure is the payload of ERROR and RPC_ERROR.
type Failure struct {
	// Type is the type of the message that failed, in an ERROR, if it is known.
	Type string `json:"type"`
	// Code, Message and Retryable are those of the errors.Error.
	Code      errors.Code `json:"code"`
	Message   string      `json:"message"`
	Retryable bool        `json:"retryable"`
	// RetryAfterMs is nil if it is missing or null.
	RetryAfterMs *int64 `json:"retryAfterMs"`
	// Details are those of the errors.Error as JSON; empty if there are none.
	Details jsontext.Value `json:"details"`
}

// Dial connects a client; the test fails if it is refused. It returns when OnOpen has returned,
// or after 30 s. The connection is closed at the end of the test.
func (s *Server) Dial(opts ...DialOptions) *Client {
	s.t.Helper()
	c, _, err := s.TryDial(opts...)
	if err != nil {
		s.t.Fatalf("routertest: dial: %v", err)
	}
	return c
}

// TryDial connects a client that may be refused; then it returns the response and an error.
func (s *Server) TryDial(opts ...DialOptions) (*Client, *http.Response, error) {
	s.t.Helper()
	o := given.Must("routertest", "Dial", opts)
	handshake, served := context.WithCancel(context.Background())
	dial := &websocket.DialOptions{HTTPClient: s.httpClient(served), HTTPHeader: o.Header}
	if o.Token != "" {
		dial.Subprotocols = []string{"bearer." + o.Token}
	}
	c := &Client{t: s.t, done: make(chan struct{}), changed: make(chan struct{})}
	dial.OnPingReceived = func(context.Context, []byte) bool { return !c.silent.Load() }
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, "ws://routertest/?"+o.Query, dial)
	if err != nil {
		return nil, res, err
	}
	ws.SetReadLimit(-1)
	c.ws = ws
	go c.receive()
	s.t.Cleanup(func() {
		_ = ws.CloseNow()
		<-c.done
		c.answering.Wait()
	})
	select {
	case <-handshake.Done():
	case <-ctx.Done():
	}
	return c, res, nil
}

// HTTPClient returns a client whose connections lead to the server, whatever the host of the URL: set
// Options.HTTPClient of package client to test with a client that reconnects.
func (s *Server) HTTPClient() *http.Client { return s.httpClient(func() {}) }

func (s *Server) httpClient(served func()) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.listener.dial(ctx, served) },
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (c *Client) receive() {
	defer close(c.done)
	for {
		_, data, err := c.ws.Read(context.Background())
		var f Frame
		if err == nil {
			err = json.Unmarshal(data, &f)
			f.Raw = data
		}
		c.mu.Lock()
		if err != nil {
			c.err = err
			if ce, ok := errors.AsType[websocket.CloseError](err); ok {
				c.closed = &ce
			}
		} else if answer := c.answers[f.Type]; answer != nil && f.isQuestion() {
			c.answering.Go(func() { answer(f) })
		} else {
			c.inbox = append(c.inbox, f)
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Send sends an event.
func (c *Client) Send(typ string, payload any) {
	c.t.Helper()
	c.write(map[string]any{"type": typ, "payload": payload})
}

// SendRaw sends a text frame unchanged.
func (c *Client) SendRaw(frame string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatalf("routertest: send: %v%s", err, c.ending())
	}
}

// ending describes how the server has closed the connection, if it has.
func (c *Client) ending() string {
	select {
	case <-c.done:
	case <-after(time.Second): // the frame may be on its way
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		return ""
	}
	return fmt.Sprintf("; the server had closed the connection with %d %q", c.closed.Code, c.closed.Reason)
}

func (c *Client) write(frame map[string]any) {
	c.t.Helper()
	b, err := json.Marshal(frame)
	if err != nil {
		c.t.Fatalf("routertest: the payload does not encode: %v", err)
	}
	c.SendRaw(string(b))
}

// Request is a request that has been sent.
type Request struct {
	// ID is its correlation id.
	ID   string
	c    *Client
	what string
}

// Request sends a request. Expect its answer with [ExpectReply] or
// [Request.ExpectError].
func (c *Client) Request(typ string, payload any) *Request {
	c.t.Helper()
	c.mu.Lock()
	c.nextID++
	id := "t" + strconv.Itoa(c.nextID)
	c.mu.Unlock()
	c.write(map[string]any{"type": typ, "meta": map[string]any{"correlationId": id}, "payload": payload})
	return &Request{ID: id, c: c, what: fmt.Sprintf("%s (request %s)", typ, id)}
}

// Abort aborts the request.
func (q *Request) Abort() {
	q.c.t.Helper()
	q.c.write(map[string]any{"type": "$ws:abort", "meta": map[string]any{"correlationId": q.ID}})
}

// ExpectReply waits for the reply to a request and decodes it. An error instead of a reply fails
// the test.
func ExpectReply[T any](q *Request) T {
	q.c.t.Helper()
	f := q.c.expect("a reply to "+q.what, func(f Frame) bool {
		return f.Meta.CorrelationID == q.ID && f.Type != progressType
	})
	if f.Type == "RPC_ERROR" {
		q.c.t.Fatalf("routertest: expected a reply to %s, got RPC_ERROR %s", q.what, f.Payload)
	}
	return decode[T](q.c, f)
}

// ExpectError waits for the request to fail with a code.
func (q *Request) ExpectError(code errors.Code) Failure {
	q.c.t.Helper()
	f := q.c.expect(string(code)+" for "+q.what, func(f Frame) bool {
		return f.Meta.CorrelationID == q.ID && f.Type != progressType
	})
	if f.Type != "RPC_ERROR" {
		q.c.t.Fatalf("routertest: expected %s for %s, got the reply %s %s", code, q.what, f.Type, f.Payload)
	}
	return q.c.failure(code, f)
}

const progressType = "$ws:rpc-progress"

// ExpectProgress waits for the next progress of a request and decodes it.
func ExpectProgress[T any](q *Request) T {
	q.c.t.Helper()
	return decode[T](q.c, q.c.expect("progress of "+q.what, func(f Frame) bool {
		return f.Meta.CorrelationID == q.ID && f.Type == progressType
	}))
}

// ExpectEvent waits for the next event of a type and decodes it. Events of other
// types are kept until they are expected.
func ExpectEvent[T any](c *Client, typ string) T {
	c.t.Helper()
	return decode[T](c, c.expect("the event "+typ, func(f Frame) bool {
		return f.Type == typ && f.Meta.CorrelationID == ""
	}))
}

// ExpectAny waits for the next frame of a type, event or not.
func (c *Client) ExpectAny(typ string) Frame {
	c.t.Helper()
	return c.expect("a frame of the type "+typ, func(f Frame) bool { return f.Type == typ })
}

// ExpectError waits for an ERROR frame, the failure of an event, with a code.
func (c *Client) ExpectError(code errors.Code) Failure {
	c.t.Helper()
	return c.failure(code, c.expect("ERROR "+string(code), func(f Frame) bool { return f.Type == "ERROR" }))
}

// ExpectFailure waits for the RPC_ERROR that answers a correlation id, with any code.
func ExpectFailure(c *Client, id string) Failure {
	c.t.Helper()
	return decode[Failure](c, c.expect("RPC_ERROR for "+id, func(f Frame) bool {
		return f.Type == "RPC_ERROR" && f.Meta.CorrelationID == id
	}))
}

// ExpectClose waits for the server to close the connection and returns the
// reason. The code 1006 stands for an end without a close frame.
func (c *Client) ExpectClose(code errors.CloseCode) (reason string) {
	c.t.Helper()
	select {
	case <-c.done:
	case <-after(timeLimit):
		c.t.Fatalf("routertest: expected the connection to be closed with %d; it is open", code)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	got := websocket.CloseError{Code: 1006}
	if c.closed != nil {
		got = *c.closed
	}
	if got.Code != websocket.StatusCode(code) {
		c.t.Fatalf("routertest: expected the connection to be closed with %d, got %d %q (%v)", code, got.Code, got.Reason, c.err)
	}
	return got.Reason
}

// Frames removes and returns the frames that were received and not expected.
func (c *Client) Frames() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.inbox
	c.inbox = nil
	return f
}

// Close closes the connection, as a browser does when the page is left.
func (c *Client) Close() { _ = c.ws.Close(websocket.StatusNormalClosure, "") }

// after bounds how long the kit waits for a server that does not answer.
func after(d time.Duration) <-chan time.Time { return time.After(d) }

// Vanish ends the connection without a closing handshake, as a lost network does.
func (c *Client) Vanish() { _ = c.ws.CloseNow() }

// IgnorePings makes the client stop answering pings.
func (c *Client) IgnorePings() { c.silent.Store(true) }

// expect takes the first frame that matches out of the inbox.
func (c *Client) expect(what string, match func(Frame) bool) Frame {
	c.t.Helper()
	timeout := after(timeLimit)
	for {
		c.mu.Lock()
		for i, f := range c.inbox {
			if match(f) {
				c.inbox = append(c.inbox[:i:i], c.inbox[i+1:]...)
				c.mu.Unlock()
				return f
			}
		}
		changed, ended, inbox := c.changed, c.err, fmt.Sprint(c.inbox)
		c.mu.Unlock()
		if ended != nil {
			c.t.Fatalf("routertest: expected %s, but the connection has ended: %v; frames: %s", what, ended, inbox)
		}
		select {
		case <-changed:
		case <-timeout:
			c.t.Fatalf("routertest: expected %s, but it was not received within %v; other frames: %s", what, timeLimit, inbox)
		}
	}
}

func (c *Client) failure(code errors.Code, f Frame) Failure {
	c.t.Helper()
	fail := decode[Failure](c, f)
	if fail.Code != code {
		c.t.Fatalf("routertest: expected %s, got %s %s", code, f.Type, f.Payload)
	}
	return fail
}

func decode[T any](c *Client, f Frame) (v T) {
	c.t.Helper()
	if f.Payload == nil {
		return v
	}
	if err := json.Unmarshal(f.Payload, &v); err != nil {
		c.t.Fatalf("routertest: the payload of %s does not decode into %T: %v: %s", f.Type, v, err, f.Payload)
	}
	return v
}

// String shows a frame in a test's message: its type, correlation id and payload.
func (f Frame) String() string {
	return fmt.Sprintf("{%s %s %s}", f.Type, f.Meta.CorrelationID, f.Payload)
}
