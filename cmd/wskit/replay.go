package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

func (c *command) replayFlags(flags *flag.FlagSet) {
	c.connectionFlags(flags)
	flags.Float64Var(&c.records.speed, "speed", 1, "how many times faster than recorded; 0: as fast as the server takes it")
}

// replay sends what clients have sent in a recording, and compares how it is answered.
type replay struct {
	*command
	lines []recorded
	conns map[int]*replayed
	want  map[key]string // outcomes, as recorded
	typ   map[key]string // types of the messages

	sent map[key]bool

	mu      sync.Mutex
	got     map[key]string
	arrived chan struct{} // holds a token when an answer has come
}

// key is a message that is answered.
type key struct {
	conn int
	id   string
}

// replayed is a connection of a replay.
type replayed struct {
	ws   *websocket.Conn
	over chan struct{} // closed when it has ended
}

// replaySession is the command replay.
func (c *command) replaySession(ctx context.Context, args []string) int {
	r, err := c.readRecording(args[1])
	if err != nil {
		return c.failed(err)
	}
	defer func() {
		for _, conn := range r.conns {
			_ = conn.ws.CloseNow()
		}
	}()
	if err := r.send(ctx, args[0]); err != nil {
		return c.failed(err)
	}
	r.await(ctx)
	return r.report()
}

// maxLine bounds a line of a recording, in bytes.
const maxLine = 64 << 20

func (c *command) readRecording(name string) (*replay, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &replay{
		command: c, conns: make(map[int]*replayed), want: make(map[key]string), typ: make(map[key]string), got: make(map[key]string), sent: make(map[key]bool),
		arrived: make(chan struct{}, 1),
	}
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		var line recorded
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s is no recording: line %d: %w", name, len(r.lines)+1, err)
		}
		r.lines = append(r.lines, line)
		var a answer
		if line.Frame == nil || json.Unmarshal(line.Frame, &a) != nil || a.Meta.ID == "" || strings.HasPrefix(a.Type, "$ws:") {
			continue
		}
		at := key{line.Conn, a.Meta.ID}
		if line.From == fromClient {
			r.typ[at] = a.Type
		} else if r.typ[at] != "" {
			r.want[at] = a.outcome()
		}
	}
	return r, scan.Err()
}

// send sends all frames of clients, in the order of the recording.
func (r *replay) send(ctx context.Context, url string) error {
	start := time.Now()
	for _, line := range r.lines {
		if line.From != fromClient {
			continue
		}
		if r.records.speed > 0 {
			due := start.Add(time.Duration(line.At / r.records.speed * float64(time.Millisecond)))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		conn := r.conns[line.Conn]
		if conn == nil {
			var err error
			if conn, err = r.dialOne(ctx, url, line.Conn); err != nil {
				return fmt.Errorf("connection %d: %w", line.Conn, err)
			}
			r.conns[line.Conn] = conn
		}
		if line.Frame == nil {
			r.await(ctx) // as the client that was recorded may have
			_ = conn.ws.Close(websocket.StatusNormalClosure, "")
			continue
		}
		var a answer
		if json.Unmarshal(line.Frame, &a) == nil {
			r.sent[key{line.Conn, a.Meta.ID}] = true
		}
		_ = conn.ws.Write(ctx, websocket.MessageText, line.Frame) // an answer that is missing is reported
	}
	return nil
}

func (r *replay) dialOne(ctx context.Context, url string, n int) (*replayed, error) {
	dialing, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	ws, err := r.connect(dialing, url, numbered(r.token, n))
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	conn := &replayed{ws: ws, over: make(chan struct{})}
	go func() {
		defer close(conn.over)
		for {
			_, text, err := ws.Read(ctx)
			if err != nil {
				r.wakeUp()
				return
			}
			var a answer
			if json.Unmarshal(text, &a) != nil || a.Meta.ID == "" || !a.final() {
				continue
			}
			r.mu.Lock()
			r.got[key{n, a.Meta.ID}] = a.outcome()
			r.mu.Unlock()
			r.wakeUp()
		}
	}()
	return conn, nil
}

func (r *replay) wakeUp() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// await waits for the answers of what was sent on connections that are open.
func (r *replay) await(ctx context.Context) {
	late := time.After(r.timeout)
	for r.open() > 0 {
		select {
		case <-r.arrived:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// open is how many answers may still come.
func (r *replay) open() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.want {
		conn := r.conns[at.conn]
		if !r.sent[at] || r.got[at] != "" {
			continue
		}
		select {
		case <-conn.over:
		default:
			n++
		}
	}
	return n
}

// shownDifferences is how many differences are printed.
const shownDifferences = 10

// report prints what was answered in another way than in the recording.
func (r *replay) report() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	different := 0
	for _, line := range r.lines {
		var a answer
		if line.From != fromClient || line.Frame == nil || json.Unmarshal(line.Frame, &a) != nil {
			continue
		}
		at := key{line.Conn, a.Meta.ID}
		want, got := r.want[at], r.got[at]
		if want == "" || want == got {
			continue
		}
		if got == "" {
			got = "no answer"
		}
		if different++; different <= shownDifferences {
			fmt.Fprintf(r.out, "connection %d, %s %s: %s, and was %s\n", at.conn, r.typ[at], at.id, got, want)
		}
	}
	fmt.Fprintf(r.out, "%d requests on %d connections, %d answered in another way\n", len(r.want), len(r.conns), different)
	if different > 0 {
		return failed
	}
	return done
}
