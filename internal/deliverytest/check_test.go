package deliverytest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/deliverytest"
)

// world is a small system of publishers, logs and clients, one step at a time. It records what they
// observe. It is right but for its fault.
type world struct {
	*rand.Rand
	fault  string
	lossy  bool // the store loses ends of logs
	now    int64
	events []deliverytest.Event
	logs   []*log
	ids    int
	struck int // how often the fault happened
}

type log struct {
	name    string
	origin  string // the position before the first entry
	entries []entry
	oldest  int // entries before it are removed
	clients []*client
	pending []*call
	skipped string // an id that is delivered to no client
}

type entry struct {
	id, pos string
	at      int64
}

type call struct {
	id      string
	begun   int64
	at      int64 // when it ends
	stored  bool
	outcome deliverytest.Outcome
	nowhere bool // it is not appended
}

type client struct {
	name   string
	log    *log
	member bool
	away   int // steps until it comes back; 0: connected
	next   int // index of the next entry
	branch int // of the log
	seen   []entry
	left   bool
}

func (w *world) record(e deliverytest.Event) {
	w.now++
	e.At = w.now
	w.events = append(w.events, e)
}

// hits reports whether the fault happens now: not at the beginning, when hardly any client is there to
// see it, and at most a few times.
func (w *world) hits(fault string) bool {
	if w.fault != fault || w.struck >= 3 || w.now < 150 || w.IntN(3) > 0 {
		return false
	}
	w.struck++
	return true
}

func (l *log) before(i int) string {
	if i == 0 {
		return l.origin
	}
	return l.entries[i-1].pos
}

func (w *world) name(kind string) string {
	w.ids++
	return fmt.Sprint(kind, w.ids)
}

func simulate(seed uint64, fault string, lossy bool) (*world, []deliverytest.Event) {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), fault: fault, lossy: lossy}
	for t := range 2 {
		l := &log{name: fmt.Sprint("topic", t), origin: w.name("origin")}
		w.logs = append(w.logs, l)
		for c := range 5 {
			l.clients = append(l.clients, &client{name: fmt.Sprint("client", c), log: l})
		}
	}
	for range 400 {
		l := w.logs[w.IntN(len(w.logs))]
		w.step(l, l.clients[w.IntN(len(l.clients))])
	}
	w.settle()
	return w, w.events
}

func (w *world) step(l *log, c *client) {
	switch n := w.IntN(100); {
	case n < 25 && len(l.pending) < 3:
		w.now++
		p := &call{id: w.name("m"), begun: w.now, at: w.now + int64(w.IntN(20)), outcome: deliverytest.Acked}
		switch w.IntN(12) {
		case 0:
			p.outcome = deliverytest.Failed
			p.nowhere = !w.hits("FailedIsDelivered")
		case 1:
			p.outcome, p.nowhere = deliverytest.Unknown, w.IntN(2) == 0
		default:
			p.nowhere = w.hits("AckedIsNotAppended")
		}
		l.pending = append(l.pending, p)
	case n < 55:
		w.progress(l)
	case n < 60 && !c.member && !c.left:
		c.member, c.away, c.next = true, 0, len(l.entries)
		w.record(deliverytest.Event{Kind: deliverytest.Joined, Topic: l.name, Client: c.name, Pos: l.before(c.next)})
		if w.fault == "JoinsTooLate" && len(l.pending) > 0 && w.hits("JoinsTooLate") {
			c.next++
		}
	case n < 63 && c.member && c.away == 0:
		c.away = 1 + w.IntN(60)
	case n < 64 && c.member && w.IntN(8) == 0:
		w.record(deliverytest.Event{Kind: deliverytest.Left, Topic: l.name, Client: c.name})
		c.member, c.left = false, true
	case n < 66 && len(l.entries)-l.oldest > 4 && w.IntN(4) == 0:
		l.oldest = len(l.entries) - 4
	case n < 68 && w.lossy && len(l.entries)-l.oldest > 3:
		w.lose(l, 1+w.IntN(3))
	default:
		w.visit(c)
	}
}

// progress appends what is pending, and ends calls.
func (w *world) progress(l *log) {
	if len(l.pending) == 0 {
		return
	}
	i := w.IntN(len(l.pending))
	p := l.pending[i]
	if !p.stored && !p.nowhere {
		p.stored = true
		w.now++
		e := entry{p.id, w.name("pos"), w.now}
		if w.fault == "OnePositionForTwo" && len(l.entries) > 0 && w.hits("OnePositionForTwo") {
			e.pos = l.entries[len(l.entries)-1].pos
		}
		l.entries = append(l.entries, e)
		if n := len(l.entries); n > 5 && w.hits("AppendedBeforeOlder") {
			l.entries[n-1], l.entries[n-4] = l.entries[n-4], l.entries[n-1]
			for _, c := range l.clients { // all that have not received them get the same order
				if c.next > n-4 {
					c.next = min(c.next, n)
				}
			}
		}
		if w.hits("DeliveredToNoClient") {
			l.skipped = p.id
		}
		return
	}
	l.pending = append(l.pending[:i], l.pending[i+1:]...)
	w.record(deliverytest.Event{Kind: deliverytest.Published, Topic: l.name, ID: p.id, Outcome: p.outcome, Begun: p.begun})
}

// lose removes the end of a log.
func (w *world) lose(l *log, n int) {
	since := l.entries[len(l.entries)-n].at
	l.entries = append([]entry(nil), l.entries[:len(l.entries)-n]...)
	for _, c := range l.clients {
		if c.next <= len(l.entries) || !c.member {
			continue
		}
		switch {
		case w.hits("RewindInSilence"):
			c.next = len(l.entries)
			continue
		case w.hits("OffsetsReused"):
			c.branch = 0
			continue
		}
		c.branch = 1
	}
	w.record(deliverytest.Event{Kind: deliverytest.MayLose, Begun: since})
}

// visit lets a client come back, or receive something.
func (w *world) visit(c *client) {
	l := c.log
	if !c.member {
		if c.left && len(l.entries) > 0 && w.hits("DeliveredAfterLeaving") {
			w.receive(c, l.entries[len(l.entries)-1])
		}
		return
	}
	if c.away > 1 {
		c.away--
		return
	}
	back := c.away == 1
	c.away = 0
	reset := func(reason string, to int) {
		kind := deliverytest.Reset
		if back {
			kind = deliverytest.Resumed
		}
		if w.hits("ResetWithoutAReason") {
			reason = ""
		}
		if reason == "trimmed" && to > 0 && w.hits("RepeatedAfterTrimming") && len(c.seen) > 0 {
			defer w.receive(c, c.seen[len(c.seen)-1])
		}
		c.next, c.branch = to, 0
		w.record(deliverytest.Event{Kind: kind, Topic: l.name, Client: c.name, Reason: reason, Pos: l.before(to)})
	}
	switch {
	case c.branch > 0:
		reset("rewound", len(l.entries))
	case c.next > len(l.entries):
		return // only with a fault
	case c.next < l.oldest:
		if w.hits("TrimmedInSilence") {
			c.next = l.oldest
			w.record(deliverytest.Event{Kind: deliverytest.Resumed, Topic: l.name, Client: c.name, OK: true})
			return
		}
		reset("trimmed", l.oldest)
	case back && w.IntN(8) == 0:
		reset(deliverytest.Denied, c.next)
		c.member = false
		if len(l.entries) > 0 && w.hits("DeliveredAfterDenial") {
			w.receive(c, l.entries[len(l.entries)-1])
		}
		c.left = true
		return
	case back:
		switch {
		case c.next < len(l.entries) && w.hits("SkipsOneOnResume"):
			c.next++
		case c.next+1 < len(l.entries) && w.hits("ResumesAtTheHead"):
			c.next = len(l.entries)
		case c.next > 0 && len(c.seen) > 0 && w.hits("RepeatsOneOnResume"):
			c.next--
		}
		w.record(deliverytest.Event{Kind: deliverytest.Resumed, Topic: l.name, Client: c.name, OK: true})
	}
	for range w.IntN(4) {
		w.deliver(c)
	}
}

// deliver gives a client its next message.
func (w *world) deliver(c *client) {
	l := c.log
	if c.next >= len(l.entries) {
		return
	}
	e := l.entries[c.next]
	c.next++
	switch {
	case e.id == l.skipped:
		return
	case w.hits("SkipsOne"):
		return
	case c.next < len(l.entries) && w.hits("SwapsTwo"):
		w.receive(c, l.entries[len(l.entries)-1])
		c.next++
	case w.hits("RepeatsOne"):
		w.receive(c, e)
	case w.hits("OfAnotherTopic"):
		if other := w.logs[0]; other != l && len(other.entries) > 0 {
			e = other.entries[0]
		}
	case w.hits("NeverPublished"):
		e.id = w.name("ghost")
	case w.hits("WithoutAPosition"):
		e.pos = ""
	case w.hits("AnotherPosition"):
		e.pos = w.name("other")
	}
	w.receive(c, e)
}

func (w *world) receive(c *client, e entry) {
	c.seen = append(c.seen, e)
	w.record(deliverytest.Event{Kind: deliverytest.Received, Topic: c.log.name, Client: c.name, ID: e.id, Pos: e.pos})
}

// settle ends everything.
func (w *world) settle() {
	for _, l := range w.logs {
		for len(l.pending) > 0 {
			w.progress(l)
		}
		for _, c := range l.clients {
			for c.member && (c.away > 0 || c.branch > 0 || c.next < l.oldest) {
				w.visit(c)
			}
			for c.member && c.next < len(l.entries) {
				if c.next == len(l.entries)-1 && w.hits("LastIsNotDelivered") {
					break
				}
				w.deliver(c)
			}
			if c.member {
				w.record(deliverytest.Event{Kind: deliverytest.Settled, Topic: l.name, Client: c.name})
			}
		}
	}
}

func TestRightRecordingsPass(t *testing.T) {
	received, resets := 0, 0
	for seed := range uint64(1000) {
		_, events := simulate(seed, "", seed%2 == 1)
		r := deliverytest.Check(events)
		if len(r.Violations) > 0 {
			t.Fatalf("seed %d: %v", seed, r)
		}
		received += r.Received
		for _, n := range r.Resets {
			resets += n
		}
	}
	if received < 50_000 || resets < 2000 {
		t.Errorf("only %d messages and %d resets", received, resets)
	}
}

// TestCheckFinds has each fault in many recordings. It does not show in all: a client that missed a
// message may leave, or be reset, directly after it; and if all clients have received what the store
// lost, and go on as if nothing had happened, none has missed anything.
func TestCheckFinds(t *testing.T) {
	for _, f := range []struct {
		fault, says string
		lossy       bool
	}{
		{fault: "FailedIsDelivered", says: "whose publishing failed"},
		{fault: "AckedIsNotAppended", says: "missed"},
		{fault: "DeliveredToNoClient", says: "missed"},
		{fault: "JoinsTooLate", says: "missed"},
		{fault: "SkipsOne", says: "missed"},
		{fault: "SkipsOneOnResume", says: "missed"},
		{fault: "ResumesAtTheHead", says: "missed"},
		{fault: "TrimmedInSilence", says: "missed"},
		{fault: "LastIsNotDelivered", says: "missed"},
		{fault: "RewindInSilence", says: "one of them missed a message", lossy: true},
		{fault: "OffsetsReused", says: "one of them missed a message", lossy: true},
		{fault: "RepeatsOne", says: "twice"},
		{fault: "RepeatsOneOnResume", says: "twice"},
		{fault: "RepeatedAfterTrimming", says: "after a reset that does not explain it"},
		{fault: "SwapsTwo", says: "one of them missed a message"},
		{fault: "AppendedBeforeOlder", says: "which was published later"},
		{fault: "OnePositionForTwo", says: "have the same position"},
		{fault: "AnotherPosition", says: "has the positions"},
		{fault: "WithoutAPosition", says: "without a position"},
		{fault: "NeverPublished", says: "which was not published"},
		{fault: "OfAnotherTopic", says: "which was not published"},
		{fault: "DeliveredAfterLeaving", says: "and is no member"},
		{fault: "DeliveredAfterDenial", says: "and is no member"},
		{fault: "ResetWithoutAReason", says: "without a reason"},
	} {
		t.Run(f.fault, func(t *testing.T) {
			struck, found, said := 0, 0, 0
			for seed := range uint64(200) {
				w, events := simulate(seed, f.fault, f.lossy)
				if w.struck == 0 {
					continue
				}
				struck++
				if r := deliverytest.Check(events); len(r.Violations) > 0 {
					found++
					if strings.Contains(r.String(), f.says) {
						said++
					}
				}
			}
			t.Logf("%d recordings with the fault, %d found, %d with its text", struck, found, said)
			least := struck / 2
			if f.lossy {
				least = struck / 4
			}
			if struck < 10 || found < least || said < least/2 {
				t.Errorf("%d recordings with the fault, %d found, %d with its text", struck, found, said)
			}
		})
	}
}

// What is written is what is read, and the command ends with 1 if there are violations.
func TestCommand(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "check")
	if out, err := exec.Command("go", "build", "-o", bin, "./check").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range []struct {
		received []string
		code     int
		says     string
	}{
		{[]string{"a", "b"}, 0, "published 2 acked, 0 failed, 0 unknown; received 2; resumed 0; lost by the store 0; violations 0"},
		{[]string{"b"}, 1, `missed "a"`},
	} {
		var text bytes.Buffer
		r := deliverytest.NewRecorder(&text)
		var want []deliverytest.Event
		record := func(e deliverytest.Event) {
			r.Record(e)
			want = append(want, e)
		}
		record(deliverytest.Event{Kind: deliverytest.Joined, Topic: "t", Client: "c", Pos: "0"})
		for _, id := range []string{"a", "b"} {
			record(deliverytest.Event{Kind: deliverytest.Published, Topic: "t", ID: id, Outcome: deliverytest.Acked, Begun: r.Now()})
		}
		for _, id := range test.received {
			record(deliverytest.Event{Kind: deliverytest.Received, Topic: "t", Client: "c", ID: id, Pos: "pos " + id})
		}
		record(deliverytest.Event{Kind: deliverytest.Settled, Topic: "t", Client: "c"})
		got, err := deliverytest.Read(bytes.NewReader(text.Bytes()))
		if err != nil || r.Err() != nil || len(got) != len(want) {
			t.Fatalf("%v, %v, %d events of %d", err, r.Err(), len(got), len(want))
		}
		for i := range got {
			if i > 0 && got[i].At < got[i-1].At {
				t.Errorf("event %d is at %d, the one before at %d", i, got[i].At, got[i-1].At)
			}
			if want[i].At = got[i].At; !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("read %+v, recorded %+v", got[i], want[i])
			}
		}
		file := filepath.Join(t.TempDir(), "recording.jsonl")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin, file)
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.says) {
			t.Errorf("received %q: code %d, %s", test.received, code, out)
		}
	}
	if _, err := deliverytest.Read(strings.NewReader("{\n")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a broken line: %v", err)
	}
}
