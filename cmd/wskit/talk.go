package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
)

// dial connects within the timeout. Failed attempts are repeated until then.
func (c *command) dial(ctx context.Context, url string, o client.Options) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	o.Logger = slog.New(slog.DiscardHandler) // what matters is in the errors
	o.Header = c.header(c.token)
	return client.Dial(ctx, url, o)
}

// header is that of a handshake. The token is no client.Options.Token: there is no other one to try.
func (c *command) header(token string) http.Header {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	if c.origin != "" {
		h.Set("Origin", c.origin)
	}
	return h
}

// connect opens one connection, without another attempt. The error has the remedy.
func (c *command) connect(ctx context.Context, url, token string) (*websocket.Conn, error) {
	conn, res, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: c.header(token)})
	if err != nil {
		found, remedy := refusal(res, err)
		return nil, fmt.Errorf("%s; %s", found, remedy)
	}
	return conn, nil
}

// payload is the JSON of an argument, or nil.
func (c *command) payload(args []string) (jsontext.Value, error) {
	if len(args) == 0 {
		return nil, nil
	}
	text := []byte(args[0])
	if args[0] == "-" {
		var err error
		if text, err = io.ReadAll(c.in); err != nil {
			return nil, err
		}
	}
	v := jsontext.Value(bytes.TrimSpace(text))
	if !v.IsValid() {
		return nil, fmt.Errorf("the payload is not JSON: %s", v)
	}
	return v, nil
}

// call makes a request. Progress and the reply are a line of JSON each; on a terminal they are indented.
func (c *command) call(ctx context.Context, args []string) int {
	payload, err := c.payload(args[2:])
	if err != nil {
		return c.misused("%v", err)
	}
	conn, err := c.dial(ctx, args[0], client.Options{})
	if err != nil {
		return c.failed(err)
	}
	defer conn.Close(ended)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	call := client.Follow[jsontext.Value, jsontext.Value](ctx, conn, args[1], asPayload(payload))
	for progress, err := range call.Progress() {
		if err == nil {
			c.printJSON(progress)
		}
	}
	reply, err := call.Reply()
	if err != nil {
		return c.refused("", err)
	}
	c.printJSON(reply)
	return done
}

// asPayload has no payload sent where there is none.
func asPayload(v jsontext.Value) any {
	if v == nil {
		return nil
	}
	return v
}

// send sends an event, and then a ping: what the server refuses before it begins to handle the event is known when that
// is answered. Nothing says whether an event was handled.
func (c *command) send(ctx context.Context, args []string) int {
	payload, err := c.payload(args[2:])
	if err != nil {
		return c.misused("%v", err)
	}
	frame, err := json.Marshal(event{Type: args[1], Payload: payload})
	if err != nil {
		return c.failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.connect(ctx, args[0], c.token)
	if err != nil {
		return c.failed(err)
	}
	defer conn.CloseNow()
	refusals := make(chan error, 1)
	go func() {
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var m struct {
				Type    string
				Payload *errors.Error
			}
			if json.Unmarshal(data, &m) == nil && m.Type == "ERROR" && m.Payload != nil {
				select {
				case refusals <- m.Payload:
				default: // the first one says enough
				}
			}
		}
	}()
	if err := conn.Write(ctx, websocket.MessageText, frame); err != nil {
		return c.failed(err)
	}
	if err := conn.Ping(ctx); err != nil {
		return c.failed(err)
	}
	select {
	case err := <-refusals:
		return c.refused("", err)
	default:
		_ = conn.Close(websocket.StatusNormalClosure, "") // else the server has closed it
		return done
	}
}

// watch prints the events that come: on a terminal as lines with the time, else as JSON, one in a line.
func (c *command) watch(ctx context.Context, args []string) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	seen, came := 0, make(map[string]int) // events, and by type
	conn, err := c.dial(ctx, args[0], client.Options{
		OnEvent: func(_ context.Context, typ string, payload jsontext.Value, meta client.Meta) {
			mu.Lock()
			defer mu.Unlock()
			if c.n > 0 && seen == c.n {
				return
			}
			c.printEvent(time.Now(), typ, payload, meta)
			came[typ]++
			if seen++; seen == c.n {
				stop()
			}
		},
		OnGap: func(g client.Gap) {
			fmt.Fprintf(c.err, "wskit: events of %s may be missing (%s)\n", g.Topic, g.Reason)
		},
		OnError: func(typ string, err error) {
			fmt.Fprintf(c.err, "wskit: %s: %v\n", typ, c.withoutToken(err.Error()))
		},
	})
	if err != nil {
		return c.failed(err)
	}
	defer conn.Close(ended)
	for _, text := range c.calls {
		typ, payload, err := splitCall(text)
		if err != nil {
			return c.misused("-call %s: %v", text, err)
		}
		within, cancel := context.WithTimeout(ctx, c.timeout)
		_, err = client.Request[jsontext.Value](within, conn, typ, asPayload(jsontext.Value(payload)))
		cancel()
		if err != nil && ctx.Err() == nil {
			return c.refused(typ+": ", err)
		}
	}
	state, err := conn.Wait(ctx, func(s client.State) bool { return s.Phase == client.Closed })
	if c.colour {
		mu.Lock()
		defer mu.Unlock()
		c.printCounts(came)
	}
	if err != nil { // it was ended here
		return done
	}
	return c.failed(state.Err)
}

// splitCall reads a request of -call.
func splitCall(text string) (typ string, payload json.RawMessage, err error) {
	typ, params, _ := strings.Cut(strings.TrimSpace(text), " ")
	if params = strings.TrimSpace(params); params == "" {
		return typ, nil, nil
	}
	if payload = json.RawMessage(params); !json.Valid(payload) {
		return typ, nil, errors.New("the payload is not JSON")
	}
	return typ, payload, nil
}

// ended has a client end at once.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// refused prints an error of the server: its code, its message, and its details if there are any.
func (c *command) refused(what string, err error) int {
	e := errors.From(err)
	text := fmt.Sprintf("%s%s: %s", what, e.Code, e.Message)
	if e.Code == errors.Internal {
		text = what + err.Error()
	}
	if details, ok := e.Details.(jsontext.Value); ok {
		text += " " + string(details)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" (again in %v)", e.RetryAfter)
	}
	return c.failed(errors.New(text))
}

func (c *command) printJSON(v jsontext.Value) {
	if len(v) == 0 {
		v = jsontext.Value("null")
	}
	if c.colour {
		_ = v.Indent(jsontext.WithIndent("  ")) // it is valid
	}
	fmt.Fprintln(c.out, string(v))
}

// event is what send writes, and a line of watch in a pipe.
type event struct {
	Type    string         `json:"type"`
	Topic   string         `json:"topic,omitzero"`
	Pos     string         `json:"pos,omitzero"`
	Payload jsontext.Value `json:"payload,omitzero"`
}

func (c *command) printEvent(at time.Time, typ string, payload jsontext.Value, meta client.Meta) {
	if !c.colour {
		line, _ := json.Marshal(event{typ, meta.Topic, meta.Pos, payload}) // it came as JSON
		fmt.Fprintln(c.out, string(line))
		return
	}
	const dim, bold, reset = "\x1b[2m", "\x1b[1m", "\x1b[0m"
	topic := ""
	if meta.Topic != "" {
		topic = dim + " " + printable(meta.Topic) + reset
	}
	begin := dim + at.Format("15:04:05.000") + reset + " " + bold + printable(typ) + reset
	fmt.Fprintln(c.out, begin+topic, printable(string(payload)))
}

// printCounts is a table of what came.
func (c *command) printCounts(came map[string]int) {
	width := 0
	for typ := range came {
		width = max(width, len(printable(typ)))
	}
	for _, typ := range slices.Sorted(maps.Keys(came)) {
		fmt.Fprintf(c.out, "%-*s %6d\n", width, printable(typ), came[typ])
	}
}

// printable leaves out what would steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
