package turn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/wskit/wskit/internal/race"
)

// message is a message as its sender sees it.
type message struct {
	task  Task[message]
	n     int // order of arrival
	begun int // handlers that were started for it
	ended int
	given bool // it was accepted by Begin
}

func (m *message) String() string {
	kind := "event"
	if m.task.Request {
		kind = "request"
	}
	if m.task.Concurrent {
		kind = "concurrent " + kind
	}
	return fmt.Sprintf("%s %d of %d bytes", kind, m.n, m.task.Size)
}

// world plays the roles around a Turn, one step at a time, and keeps its own account of
// what a user may rely on.
type world struct {
	t     *testing.T
	turn  Turn[message]
	rules Rules[message]
	rng   *rand.Rand
	log   []string

	sent       int
	arriving   *message   // the reader has it, and there was no room yet
	onReader   *message   // its handler runs on the goroutine that reads
	onWorker   *message   // its handler runs on the worker
	worker     bool       // there is a worker
	concurrent []*message // their handlers run
	line       []*message // ordered messages that were accepted and have not begun, in order
	late       *message   // was handled on the reader and is no more: its bytes count beside the bound
	tracked    map[*message]bool
	opened     map[*message]bool
	sightings  map[*message]int // at how many looks in a row the handler ran
	finished   []int            // ordered messages, as their handlers began
	framed     bool
	watched    bool
	seenSent   int // sent, at the last look
	quiet      int // looks in a row that found neither a handler nor a new frame
	stopped    bool
	asking     int // handlers that wait for the client
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), fmt.Sprintln(w.log))
}

// open lists every accepted message that is not finished and is not handled by the reader.
func (w *world) open() []*message {
	all := slices.Concat(w.line, w.concurrent)
	if w.onWorker != nil {
		all = append(all, w.onWorker)
	}
	return all
}

func (w *world) arrive() {
	kinds := []Task[message]{{}, {}, {}, {Request: true}, {Request: true}, {Concurrent: true}, {Concurrent: true, Request: true}}
	m := &message{n: w.sent, task: kinds[w.rng.IntN(len(kinds))]}
	m.task.Size, m.task.Message = w.rng.Int32N(8), m
	if w.rng.IntN(10) == 0 {
		m.task.Size = int32(2 * w.rules.MaxPending) // a large one
	}
	w.sent++
	w.turn.BeginFrame()
	w.framed = true
	if w.turn.Watch() {
		w.watched = true
	}
	w.arriving = m
	w.begin()
}

// hasRoom is what a user is promised: so many messages wait for their turn, so many events
// are handled beside them, so many bytes, and one message of any size where there is none.
func (w *world) hasRoom(m *message) bool {
	waiting, beside, bytes := 0, 0, 0
	for _, o := range w.open() {
		bytes += int(o.task.Size)
		if o.task.Concurrent && !o.task.Request {
			beside++
		}
	}
	waiting = len(w.line)
	switch {
	case !m.task.Concurrent && !w.worker:
		return true // it need not wait
	case w.stopped:
		return true
	case bytes > 0 && bytes+int(m.task.Size) > w.rules.MaxPending:
		return false
	case !m.task.Concurrent:
		return waiting < w.rules.MaxInFlight
	case m.task.Request:
		return true // the router has refused it if there were too many
	default:
		return beside < w.rules.MaxInFlight
	}
}

// begin has the message begun that the reader has.
func (w *world) begin() {
	m := w.arriving
	place := w.turn.tryBegin(&m.task)
	if room := w.hasRoom(m); room != (place != full && place != Refused) {
		w.fail("%v: there is room: %v; its place is %d", m, room, place)
	}
	if (place == full || place == Refused) && (place == Refused) != (w.asking > 0) {
		w.fail("%v finds no room while %d handlers wait for the client; its place is %d", m, w.asking, place)
	}
	switch place {
	case full:
		w.logf("%v waits for room", m)
		return
	case Refused:
		w.arriving = nil
		w.logf("%v is refused", m)
		return
	}
	w.arriving, m.given = nil, true
	w.logf("%v has place %d", m, place)
	switch place {
	case Inline:
		if m.task.Concurrent || w.worker || len(w.line) > 0 {
			w.fail("%v is handled by the reader out of turn", m)
		}
		w.onReader = m
		w.handlerBegins(m)
		if w.turn.Watch() {
			w.watched = true
		}
	case Concurrent:
		if !m.task.Concurrent {
			w.fail("%v is handled out of turn", m)
		}
		w.concurrent = append(w.concurrent, m)
		m.begun++
	case Queued:
		if m.task.Concurrent || !w.worker {
			w.fail("%v is queued, and nothing will handle it", m)
		}
		w.line = append(w.line, m)
	}
}

// handlerBegins checks that ordered messages are handled one at a time, in order.
func (w *world) handlerBegins(m *message) {
	m.begun++
	if w.onReader != nil && w.onWorker != nil {
		w.fail("the handlers of %v and %v overlap", w.onReader, w.onWorker)
	}
	if len(w.finished) > 0 && w.finished[len(w.finished)-1] >= m.n {
		w.fail("%v is handled after %d", m, w.finished[len(w.finished)-1])
	}
	w.finished = append(w.finished, m.n)
}

func (w *world) finish(m *message) {
	w.turn.Finish(&m.task)
	m.ended++
	delete(w.tracked, m)
	if !w.opened[m] {
		w.fail("%v is finished and was never opened", m)
	}
}

// readerReturns is a handler's return, or its end by Goexit: both free the role.
func (w *world) readerReturns() {
	m := w.onReader
	if !w.turn.Return() {
		w.fail("%v has returned on the reader, which has lost its role unseen", m)
	}
	w.turn.Untrack(&m.task)
	w.turn.Track(&m.task) // a goroutine of the handler's comes late
	delete(w.tracked, m)
	m.ended++
	w.onReader = nil
	w.logf("%v returns to the reader", m)
}

func (w *world) workerReturns() {
	m := w.onWorker
	if m == w.late {
		if w.turn.Return() { // as the goroutine that began as the reader does
			w.fail("%v was detached, and its goroutine reads on", m)
		}
		w.late = nil
	}
	w.onWorker = nil
	w.finish(m)
	w.logf("%v returns to the worker", m)
}

func (w *world) workerTakesNext() {
	if len(w.line) > 0 && w.turn.Free() {
		w.fail("the worker ends while %v waits", w.line[0])
	}
	got := w.turn.Next()
	if len(w.line) == 0 {
		if got != nil {
			w.fail("the worker gets %v, and none waits", got)
		}
		if !w.turn.Free() {
			w.fail("the worker cannot end, and none waits")
		}
		w.worker = false
		w.logf("the worker ends")
		return
	}
	if got != w.line[0] {
		w.fail("the worker gets %v, want %v", got, w.line[0])
	}
	w.line = w.line[1:]
	w.onWorker = got
	w.handlerBegins(got)
	if w.turn.Watch() {
		w.watched = true
	}
	w.logf("the worker takes %v", got)
}

func (w *world) look() {
	if !w.watched {
		if w.onReader != nil || w.onWorker != nil && !w.detached() {
			w.fail("a handler runs, and nothing looks after it")
		}
		return
	}
	running := w.onReader
	if running == nil {
		running = w.onWorker
	}
	for m := range w.sightings {
		if m != running {
			delete(w.sightings, m)
		}
	}
	seen, again := w.turn.Look()
	w.logf("a look: %d, again %v", seen, again)
	w.watched = again
	fresh := w.framed && w.seenSent != w.sent
	if w.quiet++; running != nil || fresh || w.worker {
		w.quiet = 0
	}
	w.seenSent = w.sent
	if fresh && !again {
		w.fail("a frame is under way since the last look, and is not looked at again")
	}
	if w.quiet > 1 && again {
		w.fail("nothing has happened for %d looks, and they go on", w.quiet)
	}
	if running == nil {
		if seen != Nothing {
			w.fail("a handler is detached, and none runs")
		}
		return
	}
	w.sightings[running]++
	twice := w.sightings[running] >= 2
	if taken := seen == TakenOver; taken != (twice && running == w.onReader) {
		w.fail("%v was seen %d times; another goroutine reads: %v", running, w.sightings[running], taken)
	}
	if seen == TakenOver { // from now on the goroutine that runs it is the worker
		w.onReader, w.onWorker, w.worker, w.late = nil, running, true, running
	}
	if !twice && !again {
		w.fail("%v was seen once, and is not looked at again", running)
	}
	if batching := w.turn.Batching(); batching == twice {
		w.fail("%v was seen %d times; what it sends is held back: %v", running, w.sightings[running], batching)
	}
}

func (w *world) detached() bool { return w.onWorker != nil && w.sightings[w.onWorker] >= 2 }

func (w *world) abort() {
	all := w.open()
	if len(all) == 0 {
		return
	}
	m := all[w.rng.IntN(len(all))]
	i := slices.Index(w.line, m)
	if got := w.turn.Abort(&m.task); got != (i >= 0) {
		w.fail("%v waits: %v; it is aborted: %v", m, i >= 0, got)
	}
	if i >= 0 {
		w.line = slices.Delete(w.line, i, i+1)
		w.finish(m)
		w.logf("%v is aborted", m)
	}
}

// check compares what the Turn says with the account.
func (w *world) check() {
	open := w.open()
	requests, bytes, events := 0, 0, 0
	for _, m := range open {
		switch {
		case m.task.Concurrent && m.task.Request:
			requests++
		case m.task.Concurrent:
			events++
		}
		if m != w.late {
			bytes += int(m.task.Size)
		}
		if !w.opened[m] {
			w.fail("%v was not opened", m)
		}
	}
	if got := w.turn.Requests(); got != requests {
		w.fail("%d requests are handled concurrently, want %d", got, requests)
	}
	if !w.stopped && len(w.line) > w.rules.MaxInFlight {
		w.fail("%d messages wait", len(w.line))
	}
	if !w.stopped && (events > w.rules.MaxInFlight || bytes > w.rules.MaxPending && len(open) > 1 && !w.large(open)) {
		w.fail("%d concurrent events and %d bytes are open", events, bytes)
	}
	if idle := w.turn.Idle(); idle != (len(open) == 0 && w.onReader == nil && !w.worker) {
		w.fail("idle: %v, with %d open, reader %v, worker %v", idle, len(open), w.onReader, w.worker)
	}
	want := map[*message]bool{}
	for _, m := range open {
		want[m] = true
	}
	for m := range w.tracked {
		want[m] = true
	}
	got := w.turn.Open()
	if len(got) != len(want) {
		w.fail("open are %v, want %v", got, want)
	}
	event := false
	for _, m := range got {
		if !want[m] {
			w.fail("%v is open", m)
		}
		event = event || !m.task.Request
	}
	if w.turn.HasEvents() != event {
		w.fail("events are open: %v", !event)
	}
	if w.turn.FrameInHand() != w.framed {
		w.fail("a frame is under way: %v", !w.framed)
	}
	if w.turn.Busy() != w.worker {
		w.fail("there is a worker: %v", w.worker)
	}
}

// large reports whether a message is open that alone exceeds the bound: it began when
// nothing else was open.
func (w *world) large(open []*message) bool {
	return slices.ContainsFunc(open, func(m *message) bool { return int(m.task.Size) > w.rules.MaxPending })
}

// step does one thing that can happen now.
func (w *world) step(arrivals bool) {
	can := []func(){w.look}
	if arrivals && w.arriving == nil && w.onReader == nil {
		can = append(can, w.arrive, w.arrive, w.arrive)
	}
	if w.arriving == nil && w.onReader == nil && w.framed {
		can = append(can, func() { w.turn.EndFrame(); w.framed = false })
	}
	if w.onReader != nil {
		can = append(can, w.readerReturns, func() {
			w.turn.Track(&w.onReader.task)
			w.tracked[w.onReader] = true
		})
	}
	switch {
	case w.onWorker != nil:
		can = append(can, w.workerReturns)
	case w.worker:
		can = append(can, w.workerTakesNext)
	}
	if n := len(w.concurrent); n > 0 {
		can = append(can, func() {
			i := w.rng.IntN(n)
			m := w.concurrent[i]
			w.concurrent = slices.Delete(w.concurrent, i, i+1)
			w.finish(m)
			w.logf("%v returns", m)
		})
	}
	if w.rng.IntN(4) == 0 {
		can = append(can, w.abort)
	}
	if w.rng.IntN(8) == 0 {
		by := 1
		if w.asking > 0 {
			by = 1 - 2*w.rng.IntN(2)
		}
		can = append(can, func() {
			w.turn.NeedReader(by)
			w.asking += by
			w.logf("%d handlers wait for the client now", w.asking)
		})
	}
	if arrivals && w.rng.IntN(8) == 0 {
		can = append(can, func() { // a message that waits for something else, from any goroutine
			m := &message{n: -1, task: Task[message]{Request: true, Concurrent: true}, begun: 1, given: true}
			m.task.Message = m
			w.turn.Add(&m.task)
			w.concurrent = append(w.concurrent, m)
			w.logf("%v is added", m)
		})
	}
	if w.rng.IntN(300) == 0 && !w.stopped {
		can = append(can, func() {
			want := len(w.turn.Open())
			if got := w.turn.Stop(); len(got) != want {
				w.fail("the end of the connection finds %d messages open, want %d", len(got), want)
			}
			w.stopped = true
			w.logf("the connection ends")
		})
	}
	can[w.rng.IntN(len(can))]()
	if w.arriving != nil {
		w.begin()
	}
	w.check()
}

// Whatever happens in whatever order, ordered messages are handled one at a time and in
// order, each message that was begun is finished once, the bounds hold, reading goes on
// beside a handler that takes long, and in the end nothing is left.
func TestRandomSequences(t *testing.T) {
	runs := race.Fewer(3000)
	if s := os.Getenv("TURN_RUNS"); s != "" {
		runs, _ = strconv.Atoi(s)
	}
	var detached, queued, full, aborted, refused int
	for seed := range runs {
		w := &world{
			t: t, rng: rand.New(rand.NewPCG(uint64(seed), 1)),
			tracked: map[*message]bool{}, opened: map[*message]bool{}, sightings: map[*message]int{},
		}
		var all []*message
		w.rules = Rules[message]{
			MaxInFlight: 1 + w.rng.IntN(4), MaxPending: 4 + w.rng.IntN(30),
			Opened: func(m *message) {
				if w.opened[m] {
					w.fail("%v is opened twice", m)
				}
				w.opened[m] = true
				all = append(all, m)
			},
		}
		w.turn.Init(&w.rules)
		for range 40 + w.rng.IntN(120) {
			w.step(true)
		}
		for range 2000 {
			if w.turn.Idle() && w.arriving == nil {
				break
			}
			w.step(false)
		}
		if !w.turn.Idle() || len(w.turn.Open()) > 0 || w.turn.Requests() != 0 || w.turn.pending != 0 || w.turn.concurrent != 0 {
			w.fail("in the end it is not idle: %+v", &w.turn)
		}
		for _, m := range all {
			if m.ended != 1 || m.begun > 1 {
				w.fail("%v was begun %d times and finished %d times", m, m.begun, m.ended)
			}
		}
		for _, line := range w.log {
			switch {
			case len(line) > 10 && line[:7] == "a look:" && line[8] == '1':
				detached++
			case line[len(line)-1] == '1':
				queued++
			case line[len(line)-4:] == "room":
				full++
			case line[len(line)-7:] == "aborted":
				aborted++
			case line[len(line)-7:] == "refused":
				refused++
			}
		}
	}
	t.Logf("%d detached, %d queued, %d kept waiting for room, %d aborted, %d refused", detached, queued, full, aborted, refused)
	if detached == 0 || queued == 0 || full == 0 || aborted == 0 || refused == 0 {
		t.Error("the sequences do not reach every state")
	}
}
