// Package deliverytest checks what publishers and clients of topics with history observed: that no
// client missed a message, got one twice or in another order, without an explicit reset.
//
// A test records [Event] values while servers run and fail, and calls [Check]. Nothing in the
// recording comes from inside of a server, and Check uses no rule by which positions, pages or
// logs are made: a position is a text that names one message. For tests of a [pubsub.Log]
// there are a [Follower], which is client and server in one, [Append] and [Audit].
package deliverytest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Kind is what an event is.
type Kind string

// Kinds of events.
const (
	// Published is the end of a publish: At, and Begun before it. Outcome says what is known of it. A
	// publisher that repeats a publish with the same id records one event for all calls.
	Published Kind = "published"
	// Joined is a client's $ws:subscribed.
	Joined Kind = "joined"
	// Received is an event of a topic that a client received.
	Received Kind = "received"
	// Reset is a client's $ws:reset, with a Reason.
	Reset Kind = "reset"
	// Resumed is the answer for one topic of $ws:resume: OK, or a Reason.
	Resumed Kind = "resumed"
	// Left is the end of a client's membership, by its own will.
	Left Kind = "left"
	// Settled is recorded for a client and a topic when all publishes have returned, nothing fails any
	// more, and there was time for all deliveries.
	Settled Kind = "settled"
	// MayLose says that the store may have lost what was published between Begun and At, or
	// in a time that overlaps: it was restarted, or a replica was promoted that did not
	// have everything. Topic is empty.
	MayLose Kind = "mayLose"
)

// Outcome is what became of a message for its publisher.
type Outcome string

// Outcomes of a publish.
const (
	Acked   Outcome = "acked"
	Failed  Outcome = "failed" // it is in no log
	Unknown Outcome = "unknown"
)

// Denied is the Reason of a Resumed after which the client is no member.
const Denied = "denied"

// Event is a line of a recording. The events of one client are in the order in which it observed
// them.
type Event struct {
	Kind  Kind   `json:"kind"`
	Topic string `json:"topic,omitempty"`
	// Client is the receiver. It keeps its name when it connects again.
	Client string `json:"client,omitempty"`
	// ID is the application's name of a message, the same for publisher and receivers.
	ID string `json:"id,omitempty"`
	// Pos is meta.pos.
	Pos     string  `json:"pos,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	OK      bool    `json:"ok,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Begun and At are times of one clock, in nanoseconds.
	Begun int64 `json:"begun,omitempty"`
	At    int64 `json:"at"`
}

// Recorder writes events as lines of JSON. Its methods may be called from any goroutine.
type Recorder struct {
	started time.Time

	mu  sync.Mutex
	enc *json.Encoder
	err error
}

// NewRecorder returns a Recorder that writes to w.
func NewRecorder(w io.Writer) *Recorder {
	return &Recorder{started: time.Now(), enc: json.NewEncoder(w)}
}

// Now is the time for Event.Begun.
func (r *Recorder) Now() int64 { return int64(time.Since(r.started)) }

// Record writes an event, whose At is now.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = r.Now()
	if err := r.enc.Encode(e); err != nil && r.err == nil {
		r.err = err
	}
}

// Err returns the first error of writing.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Read reads a recording.
func Read(from io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("deliverytest: line %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// CheckFile is [Check] for a recording in a file.
func CheckFile(name string) (Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	events, err := Read(file)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	return Check(events), nil
}
