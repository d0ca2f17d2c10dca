package inspect

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/inspection"
)

const (
	// maxTraces bounds how many traces run, or can be read, in a process.
	maxTraces = 4
	// maxTraceSeconds bounds how long a trace runs.
	maxTraceSeconds = 300
	// maxEntries bounds what is kept of a trace until it is read.
	maxEntries = 500
	// maxPayload bounds what is shown of a payload, in bytes.
	maxPayload = 2 << 10
	// keptTrace is how long a trace can be read after its end.
	keptTrace = 10 * time.Second
)

// entry is a message of a trace.
type entry struct {
	N             int       `json:"n"` // 1, 2, 3 …
	At            time.Time `json:"at"`
	Conn          string    `json:"conn"`
	Sent          bool      `json:"sent"` // by the server
	Type          string    `json:"type"`
	CorrelationID string    `json:"correlationId,omitzero"`
	Size          int       `json:"size"`
	// Payload is the beginning of the message, if the viewer may see it.
	Payload string `json:"payload,omitzero"`
}

// traces are the traces of a process.
type traces struct {
	mu  sync.Mutex
	all map[string]*trace
}

type trace struct {
	viewer   string // that began it
	mu       sync.Mutex
	payloads bool
	entries  []entry
	last     int
	dropped  int
	ended    bool
}

// startTrace begins to record the messages of a client. The error is for the viewer.
func (i *inspector) startTrace(q query) string {
	ts := &i.traces
	t := &trace{viewer: q.Viewer, payloads: q.Payloads}
	ts.mu.Lock()
	full := len(ts.all) >= maxTraces
	if !full {
		ts.all[q.ID] = t
	}
	ts.mu.Unlock()
	if full {
		return "too many traces run in this process; wait for one to end"
	}
	match := matchConn(query{Tenant: q.Tenant, User: q.User, IP: q.IP})
	if q.Search != "" {
		match = matchConn(query{ID: q.Search})
	}
	stop := i.inside.Trace(match, t.record)
	go func() {
		select {
		case <-time.After(time.Duration(min(q.Seconds, maxTraceSeconds)) * time.Second):
		case <-i.inside.Context().Done():
		}
		stop()
		t.mu.Lock()
		t.ended = true
		t.mu.Unlock()
		time.Sleep(keptTrace)
		ts.mu.Lock()
		defer ts.mu.Unlock()
		delete(ts.all, q.ID)
	}()
	return ""
}

// record keeps a message. It holds no lock of another room.
func (t *trace) record(m inspection.Message) {
	e := entry{At: m.At, Conn: m.Conn, Sent: m.Sent, Size: len(m.Payload)}
	var head struct {
		Type string `json:"type"`
		Meta struct {
			CorrelationID string `json:"correlationId"`
		} `json:"meta"`
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.entries) >= maxEntries {
		t.dropped++
		return
	}
	// What does not decode is not shown: it may have a token as well.
	if json.Unmarshal(m.Payload, &head) == nil {
		e.Type, e.CorrelationID = cut(head.Type, maxName), cut(head.Meta.CorrelationID, maxName)
		if t.payloads {
			shown := withoutSecrets(head.Type, m.Payload)
			e.Payload = string(shown[:min(len(shown), maxPayload)])
		}
	}
	t.last++
	e.N = t.last
	t.entries = append(t.entries, e)
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// withoutSecrets returns a frame without what lets its reader act for the client: the tokens and tickets of protocol
// messages.
func withoutSecrets(typ string, frame []byte) []byte {
	var all any
	if !strings.HasPrefix(typ, "$ws:") || json.Unmarshal(frame, &all) != nil {
		return frame
	}
	hideSecrets(all)
	shown, _ := json.Marshal(all) // it came from JSON
	return shown
}

func hideSecrets(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			hideSecrets(e)
		}
	case map[string]any:
		for name, e := range v {
			if name == "token" || name == "ticket" {
				v[name] = "…"
			} else {
				hideSecrets(e)
			}
		}
	}
}

// read returns the entries of a trace after one, and removes those before it. Only the viewer that began the trace can
// read it, and its payloads only as long as the viewer may see them.
func (ts *traces) read(q query) (list []entry, dropped int, running bool) {
	ts.mu.Lock()
	t := ts.all[q.ID]
	ts.mu.Unlock()
	if t == nil || t.viewer != q.Viewer {
		return nil, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.entries) > 0 && t.entries[0].N <= q.After {
		t.entries = t.entries[1:]
	}
	list = append(list, t.entries...)
	if !q.Payloads {
		for i := range list {
			list[i].Payload = ""
		}
	}
	return list, t.dropped, !t.ended
}
