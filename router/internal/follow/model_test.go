package follow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/pubsub"
)

// world is a log with two publishers, and a process that follows it for a client. What the test
// demands of it is said in terms of the messages that the publishers appended: each has a number
// of its own (its tag), and before has the one that the log had before it.
type world struct {
	// The log, and what it had before.
	epoch    uint64
	entries  []pubsub.Message // the first ones may have been removed
	removed  int
	head     pubsub.Position
	before   []uint32 // by tag: the tag of the message before it in its log; 0: none
	epochs   []uint64 // by tag
	silent   uint32   // something was lost; the next message with this tag or a larger one shows it. 0: nothing
	queue    []pubsub.Message
	attempts [2]attempt

	// The process.
	cursor  Cursor
	reading *pubsub.Page // the result of a read that is on its way; nil: none
	looking bool
	asked   pubsub.Position  // when the look at the head began
	looked  *pubsub.Position // its result, on its way

	// The client.
	at     pubsub.Position // of the last message or report that it got; zero: it has not begun
	state  clientState
	replay pubsub.Position // a resume has sent what comes up to here
	got    int

	budget budget
}

// attempt is an Append of a publisher with an id, of which the publisher does not know the outcome.
type attempt struct {
	done pubsub.Position
	open bool
}

type clientState uint8

const (
	away clientState = iota
	resuming
	live
)

// budget is how often each thing may happen.
type budget struct{ appends, losses, reports, trims, rewinds, wipes, crashes, leaves, failures int }

const pageSize = 2

func newWorld(b budget) *world {
	w := &world{budget: b, before: []uint32{0}, epochs: []uint64{0}}
	w.wipe()
	w.silent = 0
	return w
}

func (w *world) clone() *world {
	c := *w
	c.entries, c.before, c.epochs, c.queue = slices.Clone(w.entries), slices.Clone(w.before), slices.Clone(w.epochs), slices.Clone(w.queue)
	c.cursor.held = slices.Clone(w.cursor.held)
	return &c
}

func (w *world) wipe() {
	w.epoch++
	w.entries, w.removed, w.head = nil, 0, pubsub.Position{Epoch: w.epoch}
	w.silent = uint32(len(w.before))
}

// append is an Append by a publisher. It is repeated with the same id while its outcome is unknown.
func (w *world) append(publisher int) {
	a := &w.attempts[publisher]
	if a.open && a.done.Epoch == w.epoch && slices.ContainsFunc(w.entries, func(m pubsub.Message) bool { return m.Position == a.done }) {
		return
	}
	p := pubsub.Position{Epoch: w.epoch, Offset: w.head.Offset + 1, Tag: uint32(len(w.before))}
	m := pubsub.Message{Frame: []byte("x"), Position: p, Previous: w.head.Tag}
	w.before, w.epochs = append(w.before, w.head.Tag), append(w.epochs, w.epoch)
	w.entries, w.head = append(w.entries, m), p
	w.queue = append(w.queue, m)
	a.done = p
}

// read is a Read of the log, as its contract has it.
func (w *world) read(from pubsub.Position) pubsub.Page {
	p := pubsub.Page{Head: w.head}
	if from.Epoch == 0 {
		return p
	}
	i := int(from.Offset) - w.removed // of the entry after it
	switch {
	case from.Epoch != w.epoch:
		p.Lost = pubsub.LossEpoch
	case from == w.head:
	case from.Offset >= w.head.Offset:
		p.Lost = pubsub.LossRewound
	case i < 0:
		p.Lost = pubsub.LossTrimmed
	case w.entries[i].Previous != from.Tag:
		p.Lost = pubsub.LossRewound
	default:
		p.Messages = slices.Clone(w.entries[i:min(i+pageSize, len(w.entries))])
		p.More = i+pageSize < len(w.entries)
	}
	return p
}

type violation string

// message is what the client gets. It has to be the one that follows what the client has.
func (w *world) message(m pubsub.Message) {
	tag := m.Position.Tag
	if w.epochs[tag] != w.at.Epoch || w.before[tag] != w.at.Tag || m.Position.Offset != w.at.Offset+1 {
		panic(violation(fmt.Sprintf("the client has %v and gets %v", w.at, m.Position)))
	}
	w.at = m.Position
	w.got++
}

// reset has the client go on at a position. That has to be necessary.
func (w *world) reset(reason pubsub.Loss, at pubsub.Position) {
	if w.cursor.Most == 0 && w.read(w.at).Lost == "" {
		panic(violation(fmt.Sprintf("a reset (%s) of a client that could go on", reason)))
	}
	w.at = at
}

// deliver passes on to the client what the cursor delivers.
func (w *world) deliver(messages []pubsub.Message, reset pubsub.Loss, at pubsub.Position) {
	if w.state != live {
		return
	}
	if reset != "" {
		w.reset(reset, at)
	}
	for _, m := range messages {
		w.message(m)
	}
}

// step is a thing that may happen.
type step struct {
	name string
	ok   func(*world) bool
	do   func(*world)
}

func spend(n *int) { *n-- }

var steps = []step{
	{"publisher 1 appends", func(w *world) bool { return w.budget.appends > 0 }, func(w *world) { spend(&w.budget.appends); w.attempts[0].open = false; w.append(0) }},
	{"publisher 2 appends, and does not get to know", func(w *world) bool { return w.budget.appends > 0 && !w.attempts[1].open }, func(w *world) { spend(&w.budget.appends); w.append(1); w.attempts[1].open = true }},
	{"publisher 2 repeats it", func(w *world) bool { return w.attempts[1].open }, func(w *world) { w.append(1); w.attempts[1].open = false }},
	{"a message is delivered", func(w *world) bool { return len(w.queue) > 0 }, func(w *world) {
		m := w.queue[0]
		w.queue = w.queue[1:]
		if m.Position == w.head && m.Position.Tag >= w.silent {
			w.silent = 0
		}
		if m.Lost {
			w.cursor.Lost()
		} else if w.cursor.Live(m) {
			w.deliver([]pubsub.Message{m}, "", pubsub.Position{})
		}
	}},
	{"a message is delivered twice", func(w *world) bool { return len(w.queue) > 0 && w.budget.losses > 0 }, func(w *world) {
		spend(&w.budget.losses)
		w.queue = slices.Insert(w.queue, 1, w.queue[0])
	}},
	{"a message is lost", func(w *world) bool { return len(w.queue) > 0 && w.budget.losses > 0 }, func(w *world) {
		spend(&w.budget.losses)
		w.silent = max(w.silent, w.queue[0].Position.Tag+1)
		w.queue = w.queue[1:]
	}},
	{"all messages on their way are lost, which is reported", func(w *world) bool { return w.budget.reports > 0 }, func(w *world) { spend(&w.budget.reports); w.queue = []pubsub.Message{{Lost: true}} }},
	{"a read is made", func(w *world) bool { return w.reading == nil }, func(w *world) {
		if from, ok := w.cursor.Read(); ok {
			p := w.read(from)
			w.reading = &p
		}
	}},
	{"the result of the read comes", func(w *world) bool { return w.reading != nil }, func(w *world) {
		p := *w.reading
		w.reading = nil
		messages, reset, at, ok := w.cursor.Page(p)
		if !ok {
			panic(violation(fmt.Sprintf("the page %+v is refused", p)))
		}
		w.deliver(messages, reset, at)
	}},
	{"the read fails", func(w *world) bool { return w.reading != nil && w.budget.failures > 0 }, func(w *world) { spend(&w.budget.failures); w.reading = nil; w.cursor.Failed() }},
	{"a look at the head begins", func(w *world) bool { return !w.looking && w.budget.failures > 0 }, func(w *world) {
		spend(&w.budget.failures)
		w.looking, w.asked = true, w.cursor.Position()
		head := w.head
		w.looked = &head
	}},
	{"the result of the look comes", func(w *world) bool { return w.looking }, func(w *world) { w.looking = false; w.cursor.Head(*w.looked, w.asked); w.looked = nil }},
	{"the log is trimmed", func(w *world) bool { return w.budget.trims > 0 && len(w.entries) > 1 }, func(w *world) { spend(&w.budget.trims); w.entries = w.entries[1:]; w.removed++ }},
	{"the log loses its end", func(w *world) bool { return w.budget.rewinds > 0 && len(w.entries) > 1 }, func(w *world) {
		spend(&w.budget.rewinds)
		w.silent = uint32(len(w.before))
		w.entries = w.entries[:len(w.entries)-1]
		w.head = w.entries[len(w.entries)-1].Position
	}},
	{"the log is lost", func(w *world) bool { return w.budget.wipes > 0 }, func(w *world) { spend(&w.budget.wipes); w.wipe() }},
	{"the process is killed", func(w *world) bool { return w.budget.crashes > 0 }, func(w *world) {
		spend(&w.budget.crashes)
		w.cursor, w.queue, w.reading, w.looking, w.looked = Cursor{}, nil, nil, false, nil
		w.state = away
	}},
	{"the client leaves", func(w *world) bool { return w.state != away && w.budget.leaves > 0 }, func(w *world) { spend(&w.budget.leaves); w.state = away }},
	{"the client subscribes or resumes", func(w *world) bool { return w.state == away && w.cursor.Position().Epoch != 0 }, func(w *world) {
		if w.at.Epoch == 0 {
			w.at, w.state = w.cursor.Position(), live
			return
		}
		w.state, w.replay = resuming, w.at
	}},
	{"its resume goes on", func(w *world) bool { return w.state == resuming }, func(w *world) { w.resume() }},
}

// resume is what the router does for a client that resumes, see router/replay.go.
func (w *world) resume() {
	if w.replay == w.cursor.Position() {
		w.state = live
		return
	}
	p := w.read(w.replay)
	if p.Lost != "" {
		w.reset(p.Lost, w.cursor.Position())
		w.state = live
		return
	}
	for _, m := range p.Messages {
		w.message(m)
		w.replay = m.Position
	}
	w.cursor.Head(p.Head, w.cursor.Position())
}

// settled has all that is under way come to its end. Then the client has all that the log has. If
// something was lost, and nothing since has shown it, the head has to be looked at before.
func (w *world) settled() {
	for look := range 2 {
		if look == 1 {
			w.cursor.Head(w.head, w.cursor.Position())
		}
		for i := 0; !w.rests(); i++ {
			if i == 100 {
				panic(violation("it does not come to rest"))
			}
			w.run(delivery)
			w.run(result)
			w.run(aRead)
			w.run(subscribes)
			w.run(goesOn)
		}
		if w.at != w.head && (look == 1 || w.silent == 0) {
			panic(violation(fmt.Sprintf("the client has %v, the log ends at %v", w.at, w.head)))
		}
	}
}

func (w *world) rests() bool {
	c := w.cursor
	_, reads := c.Read()
	return !reads && w.reading == nil && len(w.queue) == 0 && w.state == live
}

// run does a thing that may happen.
func (w *world) run(i int) {
	if s := steps[i]; s.ok(w) {
		s.do(w)
	}
}

// Those of steps that bring things to their end.
var delivery, aRead, result, subscribes, goesOn = place("a message is delivered"), place("a read is made"), place("the result of the read comes"), place("the client subscribes or resumes"), place("its resume goes on")

func place(name string) int {
	return slices.IndexFunc(steps, func(s step) bool { return s.name == name })
}

// key distinguishes states.
func (w *world) key() string {
	c := &w.cursor
	var b []byte
	number := func(n uint64) { b = append(b, byte(n)) } // all are small
	position := func(p pubsub.Position) { number(p.Epoch); number(p.Offset); number(uint64(p.Tag)) }
	truth := func(v bool) {
		if v {
			number(1)
		} else {
			number(0)
		}
	}
	messages := func(list []pubsub.Message) {
		number(uint64(len(list)))
		for _, m := range list {
			position(m.Position)
			truth(m.Lost)
		}
	}
	messages(w.entries)
	messages(w.queue)
	messages(c.held)
	for _, p := range []pubsub.Position{w.head, c.last, c.from, w.asked, w.at, w.replay, w.attempts[0].done, w.attempts[1].done} {
		position(p)
	}
	x := w.budget
	for _, n := range []int{w.removed, len(w.before), c.early, int(w.silent), int(w.state), x.appends, x.losses, x.reports, x.trims, x.rewinds, x.wipes, x.crashes, x.leaves, x.failures} {
		number(uint64(n))
	}
	for _, v := range []bool{c.missed, c.reading, w.looking, w.attempts[1].open, w.reading != nil, w.looked != nil} {
		truth(v)
	}
	for i := range 6 {
		number(uint64(c.tags[i]))
	}
	if w.reading != nil {
		b = append(b, w.reading.Lost...)
		position(w.reading.Head)
		messages(w.reading.Messages)
	}
	if w.looked != nil {
		position(*w.looked)
	}
	return string(b)
}

// explore goes through all that can happen from a state.
type explorer struct {
	t    *testing.T
	seen map[string]struct{}
	path []string
	most int // states
}

func (e *explorer) explore(w *world) {
	if len(e.seen) >= e.most {
		return
	}
	key := w.key()
	if _, ok := e.seen[key]; ok {
		return
	}
	e.seen[key] = struct{}{}
	e.attempt("all comes to its end", w, (*world).settled)
	for _, s := range steps {
		if s.ok(w) {
			next := w.clone()
			e.path = append(e.path, s.name)
			e.attempt(s.name, next, s.do)
			e.explore(next)
			e.path = e.path[:len(e.path)-1]
		}
	}
}

// attempt fails the test with the path to a violation.
func (e *explorer) attempt(name string, w *world, do func(*world)) {
	defer func() {
		if v := recover(); v != nil {
			e.t.Fatalf("%v\nafter:\n\t%s\n\t%s", v, strings.Join(e.path, "\n\t"), name)
		}
	}()
	if name == "all comes to its end" {
		w = w.clone()
	}
	do(w)
}

// All that can happen to two publishers, a log, a process and a client that comes back, within
// small bounds: the client gets each message after its position once and in order, or a reset.
func TestEachMessageOnceOrAReset(t *testing.T) {
	for _, c := range []struct {
		name string
		b    budget
	}{
		{"messages are lost", budget{appends: 3, losses: 1, failures: 1}},
		{"losses are reported", budget{appends: 3, reports: 1, failures: 1}},
		{"the process is killed", budget{appends: 3, crashes: 1}},
		{"the client leaves", budget{appends: 3, losses: 1, leaves: 1}},
		{"the log loses its end", budget{appends: 3, losses: 1, rewinds: 1, leaves: 1}},
		{"the log loses its end, and the process is killed", budget{appends: 3, rewinds: 1, crashes: 1}},
		{"the log is lost", budget{appends: 3, wipes: 1, leaves: 1}},
		{"the log is trimmed", budget{appends: 3, losses: 1, trims: 1, leaves: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := explorer{t: t, seen: make(map[string]struct{}), most: 1 << 20}
			e.explore(newWorld(c.b))
			if len(e.seen) == e.most {
				t.Fatal("there are more states than the test looks at")
			}
			t.Log(len(e.seen), "states")
		})
	}
}

// The same with larger figures, at random.
func TestRandomHistories(t *testing.T) {
	for range 2000 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(budget{appends: 60, losses: r.IntN(20), reports: r.IntN(4), trims: r.IntN(10), rewinds: r.IntN(5), wipes: r.IntN(3), crashes: r.IntN(4), leaves: r.IntN(6), failures: r.IntN(20)})
		most := uint64(r.IntN(2) * 10)
		w.cursor.Most = most
		e := explorer{t: t}
		for range 600 {
			s := steps[r.IntN(len(steps))]
			if !s.ok(w) {
				continue
			}
			e.path = append(e.path, s.name)
			e.attempt(s.name, w, s.do)
			w.cursor.Most = most // of a new process as well
		}
		e.attempt("all comes to its end", w, (*world).settled)
	}
}
