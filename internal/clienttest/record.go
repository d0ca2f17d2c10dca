package clienttest

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/wskit/wskit/router"
)

// Log is the record. Times are in milliseconds since the start of the server.
type Log struct {
	NowMs    float64   `json:"nowMs"`
	Attempts []Attempt `json:"attempts"` // connections, in order
	// Received and Sent are the text frames from and to clients that passed the proxy, and those of scripts.
	Received []Frame     `json:"received"`
	Sent     []Frame     `json:"sent"`
	Closes   []Close     `json:"closes"`
	Cuts     []CutDone   `json:"cuts"`
	Executed []Execution `json:"executed"` // messages that reached their handlers
	// Executions counts them by the id in their payload. Whatever has an id must not have more than 1,
	// unless the client was asked to send it twice.
	Executions map[string]int `json:"executions"`
	Tokens     []TokenCall    `json:"tokens"` // requests for tokens
}

// Attempt is a TCP connection to the proxy, from the first byte of its handshake on.
type Attempt struct {
	Conn    int     `json:"conn"` // its number, from 1
	AtMs    float64 `json:"atMs"`
	EndedMs float64 `json:"endedMs"` // 0: it is open
	// Outcome is "refused" (reset before the handshake), "script", the status of the handshake ("101"), or empty
	// as long as it is not known.
	Outcome string `json:"outcome"`
	Token   string `json:"token"`
	Path    string `json:"path"` // with its query
	ID      string `json:"id"`   // X-Client-Id
}

// Frame is a text frame.
type Frame struct {
	Conn           int     `json:"conn"`
	AtMs           float64 `json:"atMs"`
	Type           string  `json:"type"`
	CorrelationID  string  `json:"correlationId"`
	IdempotencyKey string  `json:"idempotencyKey"`
	Topic          string  `json:"topic"`
	Pos            string  `json:"pos"`
	Text           string  `json:"text"` // the first 1,024 bytes
	Bytes          int     `json:"bytes"`
	Whole          bool    `json:"whole"` // it is carried to its last byte, unless the receiver goes before
}

// Close is a close frame.
type Close struct {
	Conn   int     `json:"conn"`
	AtMs   float64 `json:"atMs"`
	Dir    string  `json:"dir"` // "up" from the client, "down" from the server
	Code   int     `json:"code"`
	Reason string  `json:"reason"`
}

// CutDone is a cut that was made.
type CutDone struct {
	Conn int     `json:"conn"`
	AtMs float64 `json:"atMs"`
	Dir  string  `json:"dir"`
	Type string  `json:"type"` // of the frame
	Byte int     `json:"byte"` // so many of its bytes were carried
	Of   int     `json:"of"`
}

// Execution is a message that reached its handler.
type Execution struct {
	AtMs          float64 `json:"atMs"`
	Type          string  `json:"type"`
	ID            string  `json:"id"` // of the payload
	CorrelationID string  `json:"correlationId"`
	User          string  `json:"user"`
	Conn          string  `json:"conn"` // X-Client-Id
}

// TokenCall is a request to the token endpoint.
type TokenCall struct {
	AtMs float64 `json:"atMs"`
	Mode string  `json:"mode"`
}

// maxRecorded bounds each list of the record.
const maxRecorded = 200_000

type record struct {
	started time.Time

	mu     sync.Mutex
	log    Log
	before int // attempts before Clear
}

func (r *record) begin() {
	r.started = time.Now()
	r.log = emptyLog()
}

// emptyLog has empty lists, which are [] in JSON.
func emptyLog() Log {
	return Log{
		Attempts: []Attempt{}, Received: []Frame{}, Sent: []Frame{}, Closes: []Close{}, Cuts: []CutDone{},
		Executed: []Execution{}, Executions: map[string]int{}, Tokens: []TokenCall{},
	}
}

func (r *record) now() float64 { return float64(time.Since(r.started).Microseconds()) / 1000 }

// keep appends to a list of the record, which is locked.
func keep[T any](list *[]T, v T) {
	if len(*list) < maxRecorded {
		*list = append(*list, v)
	}
}

func (r *record) executed(c *router.Context, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep(&r.log.Executed, Execution{
		AtMs: r.now(), Type: c.Type(), ID: id, CorrelationID: c.CorrelationID(), User: c.Identity.User, Conn: c.Conn().ID(),
	})
	if id != "" {
		r.log.Executions[id]++
	}
}

func (r *record) executions(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Executions[id]
}

func (r *record) token(mode string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep(&r.log.Tokens, TokenCall{r.now(), mode})
}

func (r *record) cut(c CutDone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.AtMs = r.now()
	keep(&r.log.Cuts, c)
}

// attempt records a connection and returns its number.
func (r *record) attempt() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.before + len(r.log.Attempts) + 1
	keep(&r.log.Attempts, Attempt{Conn: n, AtMs: r.now()})
	return n
}

// amend changes what is recorded of a connection.
func (r *record) amend(conn int, change func(*Attempt)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := conn - r.before - 1; i >= 0 && i < len(r.log.Attempts) {
		change(&r.log.Attempts[i])
	}
}

// frame records a frame that goes up or down.
func (r *record) frame(conn int, dir string, f *frame, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch f.op {
	case opClose:
		c := Close{Conn: conn, AtMs: r.now(), Dir: dir, Code: 1005}
		if len(f.payload) >= 2 {
			c.Code, c.Reason = int(f.payload[0])<<8|int(f.payload[1]), string(f.payload[2:])
		}
		keep(&r.log.Closes, c)
	case opText, opBinary:
		e := f.envelope()
		entry := Frame{
			Conn: conn, AtMs: r.now(), Type: e.Type, CorrelationID: e.Meta.CorrelationID, IdempotencyKey: e.Meta.IdempotencyKey,
			Topic: e.Meta.Topic, Pos: e.Meta.Pos, Text: string(f.payload[:min(len(f.payload), 1024)]), Bytes: len(f.payload), Whole: whole,
		}
		if dir == up {
			keep(&r.log.Received, entry)
		} else {
			keep(&r.log.Sent, entry)
		}
	}
}

// Log returns a copy of the record.
func (s *Server) Log() Log {
	r := &s.record
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.NowMs = r.now()
	// A copy by JSON, which the controls need in any case.
	var l Log
	text, err := json.Marshal(&r.log)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		panic(err)
	}
	return l
}

// ClearLog begins the record again. The numbers of connections go on; those that are open are not in the
// new record.
func (s *Server) ClearLog(struct{}) error {
	r := &s.record
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before += len(r.log.Attempts)
	r.log = emptyLog()
	return nil
}
