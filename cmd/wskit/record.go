package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// recordFlags are those of record and replay.
type recordFlags struct {
	listen  string
	secrets []string
	speed   float64
}

func (c *command) recordFlags(flags *flag.FlagSet) {
	f := &c.records
	flags.DurationVar(&c.timeout, "timeout", 10*time.Second, "how long the server has to answer")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8081", "where clients connect in place of the server")
	f.secrets = []string{"password", "secret", "ticket", "token"}
	flags.Func("secret", "a further member whose values are not written; may be given several times. "+
		"password, secret, ticket and token never are", func(s string) error {
		f.secrets = append(f.secrets, s)
		return nil
	})
}

// recorded is a line of a recording: a frame, or the end of a connection, which has none.
type recorded struct {
	At    float64         `json:"at"`   // in ms, from the beginning of the recording
	Conn  int             `json:"conn"` // 1 for the first connection
	From  string          `json:"from"` // "client" or "server"
	Frame json.RawMessage `json:"frame,omitempty"`
	Close int             `json:"close,omitempty"` // the code; 1006 without a close frame
}

const (
	fromClient = "client"
	fromServer = "server"
)

// recording writes what passes between clients and a server.
type recording struct {
	*command
	url   string
	start time.Time

	mu    sync.Mutex
	out   *json.Encoder
	conns int
	lines int
	err   error // of writing
}

// recordSession is the command record: a proxy in front of the server.
func (c *command) recordSession(ctx context.Context, args []string) int {
	file, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // for its owner: it has what users write
	if err != nil {
		return c.failed(err)
	}
	defer file.Close()
	listener, err := net.Listen("tcp", c.records.listen)
	if err != nil {
		return c.failed(err)
	}
	r := &recording{command: c, url: args[0], start: time.Now(), out: json.NewEncoder(file)}
	server := &http.Server{Handler: r, ReadHeaderTimeout: c.timeout, BaseContext: func(net.Listener) context.Context { return ctx }}
	fmt.Fprintf(c.err, "wskit: recording; connect to ws://%s, and end with Ctrl-C\n", listener.Addr())
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return c.failed(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return c.failed(r.err)
	}
	fmt.Fprintf(c.err, "wskit: %d frames of %d connections\n", r.lines, r.conns)
	return done
}

// ServeHTTP connects a client with the server, with its headers, subprotocols and query.
func (r *recording) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	var protocols []string
	for _, list := range req.Header.Values("Sec-WebSocket-Protocol") {
		for one := range strings.SplitSeq(list, ",") {
			protocols = append(protocols, strings.TrimSpace(one))
		}
	}
	header := make(http.Header)
	for _, name := range []string{"Authorization", "Cookie", "User-Agent"} {
		header[name] = req.Header.Values(name)
	}
	url := r.url
	if req.URL.RawQuery != "" {
		url += "?" + req.URL.RawQuery
	}
	dialing, stop := context.WithTimeout(ctx, r.timeout)
	server, res, err := websocket.Dial(dialing, url, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	stop()
	if err != nil {
		status := http.StatusBadGateway
		if res != nil && res.StatusCode >= 400 {
			status = res.StatusCode
		}
		http.Error(w, "the server has refused the connection, or was not reached", status)
		return
	}
	defer server.CloseNow()
	accept := &websocket.AcceptOptions{InsecureSkipVerify: true} // the server has seen no Origin: this is for one's own pages
	if p := server.Subprotocol(); p != "" {
		accept.Subprotocols = []string{p}
	}
	client, err := websocket.Accept(w, req, accept)
	if err != nil {
		return
	}
	defer client.CloseNow()
	r.mu.Lock()
	r.conns++
	n := r.conns
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.pass(ctx, n, fromClient, client, server); cancel() })
	both.Go(func() { r.pass(ctx, n, fromServer, server, client); cancel() })
	both.Wait()
}

// pass passes frames on in one direction, and writes them.
func (r *recording) pass(ctx context.Context, n int, sender string, from, to *websocket.Conn) {
	from.SetReadLimit(-1)
	for {
		kind, frame, err := from.Read(ctx)
		if err != nil {
			end := recorded{Conn: n, From: sender, Close: 1006}
			if closed, ok := errors.AsType[websocket.CloseError](err); ok {
				end.Close = int(closed.Code)
				_ = to.Close(closed.Code, closed.Reason)
			}
			if ctx.Err() == nil {
				r.write(end)
			}
			return
		}
		if kind == websocket.MessageText && json.Valid(frame) {
			r.write(recorded{Conn: n, From: sender, Frame: r.withoutSecrets(frame)})
		}
		if err := to.Write(ctx, kind, frame); err != nil {
			return
		}
	}
}

func (r *recording) write(line recorded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line.At = float64(time.Since(r.start).Microseconds()) / 1000
	r.lines++
	if err := r.out.Encode(line); err != nil && r.err == nil {
		r.err = err
	}
}

// hidden is in a recording where a secret was.
const hidden = "…"

// withoutSecrets is a frame without the values of secret members, at any depth.
func (r *recording) withoutSecrets(frame []byte) json.RawMessage {
	var v any
	d := json.NewDecoder(strings.NewReader(string(frame)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	if !r.hide(v) {
		return frame
	}
	clean, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return clean
}

// hide replaces secrets, and reports whether there were any.
func (r *recording) hide(v any) (found bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			secret := slices.ContainsFunc(r.records.secrets, func(s string) bool { return strings.EqualFold(s, name) })
			if secret {
				v[name], found = hidden, true
			} else if r.hide(member) {
				found = true
			}
		}
	case []any:
		for _, one := range v {
			found = r.hide(one) || found
		}
	}
	return found
}
