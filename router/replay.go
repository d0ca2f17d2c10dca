package router

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/follow"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/wire"
)

// A client that resumes a topic is sent what it has missed, page by page, each when the ones before
// have left but for half of Limits.MaxQueued. It becomes a member at the moment at which it has what
// the members have. So that this moment comes on a busy topic as well, the topic keeps what it has
// delivered last while clients resume.

const (
	// maxLatest and maxLatestBytes bound what a topic keeps of what was delivered last.
	maxLatest      = 512
	maxLatestBytes = 1 << 20
	// atOnce is how much of that is sent with the topic locked, before the client becomes a member.
	atOnce = 16
)

// latest is what was delivered last. It changes as followed.at does, and is read with topic.mu
// locked for writing.
type latest struct {
	clients int       // that resume; 0: nothing is kept
	ended   time.Time // when the last one had resumed
	waits   bool      // forgetPages will be called
	from    pubsub.Position
	list    []logged // from and list[i].at are next to each other; never changed, but replaced
	bytes   int
	moved   chan struct{} // closed when at moves; nil: no goroutine waits
}

// keep takes note of a message that is delivered, if clients resume. subscription.mu and topic.mu are
// held, the latter for reading.
func (l *latest) keep(m logged) {
	l.move()
	if l.clients == 0 {
		return
	}
	l.list = append(l.list, m)
	l.bytes += m.size()
	for len(l.list) > maxLatest || l.bytes > maxLatestBytes {
		half := len(l.list) / 2
		l.from = l.list[half].at
		l.list = append([]logged(nil), l.list[half+1:]...)
		l.bytes = 0
		for i := range l.list {
			l.bytes += l.list[i].size()
		}
	}
}

// reset begins anew at a position.
func (l *latest) reset(at pubsub.Position) {
	l.move()
	l.from, l.list, l.bytes = at, nil, 0
}

func (l *latest) move() {
	if l.moved != nil {
		close(l.moved)
		l.moved = nil
	}
}

// behind returns what was delivered behind a position.
func (l *latest) behind(at pubsub.Position) []logged {
	p := page{from: l.from, messages: l.list}
	list, _ := p.behind(at)
	return list
}

// errReset is why a client cannot be resumed.
type errReset struct{ reason pubsub.Loss }

func (e *errReset) Error() string { return "router: not resumed: " + string(e.reason) }

// lossJoined means that the connection is a member already.
const lossJoined pubsub.Loss = "subscribed"

// resumeTopic makes the connection a member of a topic, after what it has missed since a position. With
// announce, it sends $ws:subscribed before. It
// returns how many messages that were, and where the connection is. If the error is an errReset, it is
// a member nevertheless, but for lossJoined, and got $ws:reset.
func (c *Conn) resumeTopic(ctx context.Context, name string, from pubsub.Position, announce bool) (replayed int, at pubsub.Position, err error) {
	m, err := c.place(ctx, name)
	if m == nil && err == nil {
		err = &errReset{lossJoined}
	}
	if err != nil {
		return 0, at, err
	}
	r := replay{m: m, c: c, at: from, announce: announce}
	err = r.run(ctx)
	if _, reset := errors.AsType[*errReset](err); err == nil || reset {
		c.mu.Lock()
		m.joined = true
		m.settle()
		c.mu.Unlock()
		c.stream.Out.Flush()
		return r.sent, r.at, err
	}
	if c.takeOff(func(have *member) bool { return have == m }) != nil {
		m.leave()
		c.router.topics.release(m.topic)
	}
	return r.sent, r.at, err
}

// replay is what is sent to one client of one topic.
type replay struct {
	m       *member
	c       *Conn
	in      *subscription
	at      pubsub.Position // up to which it has been sent
	sent    int
	hadTurn bool // in which messages were sent

	announce bool // send $ws:subscribed first
}

func (r *replay) run(ctx context.Context) error {
	t := r.m.topic
	if t.history == nil { // any more
		return errNoHistory
	}
	if err := r.m.wait(ctx, r.c.router); err != nil {
		return err
	}
	r.c.router.fair.Await() // thousands may have waited for the subscription
	t.mu.Lock()
	r.in = t.subscription
	if r.in == nil { // the member has left
		t.mu.Unlock()
		return ErrClosed
	}
	f := r.in.log
	if f.latest.clients++; f.latest.clients == 1 {
		f.latest.reset(f.at)
	}
	tooFar := f.at.Epoch == r.at.Epoch && t.history.replay > 0 && f.at.Offset > r.at.Offset+uint64(t.history.replay)
	t.mu.Unlock()
	defer r.in.resumed()
	if r.announce {
		if err := r.m.announce(r.at, nil); err != nil {
			return err
		}
	}
	if tooFar {
		// The log may have lost what is at the position, and used its offset again.
		_, lost, err := r.in.behind(ctx, r.at)
		if err != nil {
			return err
		}
		return r.reset(cmp.Or(lost, follow.LossTooFar))
	}
	for {
		if !r.c.stream.Out.AwaitRoom(0) { // for what it gets as a member
			return ErrClosed
		}
		list, joined, err := r.meet()
		if joined || err != nil {
			return err
		}
		if len(list) == 0 {
			var lost pubsub.Loss
			switch list, lost, err = r.in.behind(ctx, r.at); {
			case err != nil:
				return err
			case lost != "":
				return r.reset(lost)
			case len(list) == 0:
				// The members are not yet where the client is, or have something that the log
				// has not any more.
				if err := r.await(ctx); err != nil {
					return err
				}
				continue
			}
		}
		if err := r.send(ctx, list); err != nil {
			return err
		}
	}
}

// meet makes the client a member, if it is where the members are, or nearly. Otherwise it returns
// what was delivered behind its position, if that is kept.
func (r *replay) meet() (list []logged, joined bool, err error) {
	t := r.m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.m.index == left {
		return nil, false, ErrClosed
	}
	f := r.in.log
	if r.at != f.at {
		list = f.latest.behind(r.at)
		if len(list) == 0 || len(list) > atOnce || !r.room(list) {
			return list, false, nil
		}
		for len(list) > 0 {
			n, err := r.queue(list, math.MaxInt)
			if err != nil {
				return nil, false, err
			}
			list = list[n:]
		}
	}
	t.waiting-- // for which the subscription was kept
	t.add(r.m)
	return nil, true, nil
}

// room reports whether messages can be queued now, all of them.
func (r *replay) room(list []logged) bool {
	n := 0
	for i := range list {
		n += len(list[i].frame)
	}
	return n <= r.c.router.opts.Limits.MaxQueued/2 && r.c.stream.Out.HasRoom(n)
}

// queue queues the messages at the beginning of a list that lie behind one another in memory and have at most room
// bytes, and returns how many these are.
func (r *replay) queue(list []logged, room int) (n int, err error) {
	run, frames, n := inOneRun(list, room)
	if n == 0 {
		return 0, nil
	}
	if err := r.c.stream.Out.AppendRun(run, frames); err != nil {
		return 0, ErrClosed
	}
	if r.c.traced.Load() {
		for i := range list[:n] {
			if list[i].frame != nil {
				r.c.traceFrame(list[i].frame)
			}
		}
	}
	r.sent += frames
	r.at = list[n-1].at
	return n, nil
}

// send sends messages, each when there is room for it, and what there is room for in one turn.
func (r *replay) send(ctx context.Context, list []logged) error {
	out := &r.c.stream.Out
	for i := 0; i < len(list); {
		if !out.AwaitRoom(len(list[i].frame)) {
			return ErrClosed
		}
		if r.hadTurn {
			r.c.router.fair.Again()
		} else {
			r.c.router.fair.Await()
		}
		r.hadTurn = true
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.c.life.State() != life.Open {
			return r.c.router.drainError()
		}
		for i < len(list) {
			n, err := r.queue(list[i:], out.Room(len(list[i].frame)))
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			i += n
		}
		out.Flush()
	}
	return nil
}

// reset makes the client a member without what it has missed, and sends $ws:reset.
func (r *replay) reset(reason pubsub.Loss) error {
	t := r.m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.m.index == left {
		return ErrClosed
	}
	r.at = r.in.log.at
	frame := share(resetFrame(t.name, reason, r.at))
	if _, err := r.c.stream.Out.AppendShared(frame.plain, wire.Disconnect, ""); err != nil {
		return ErrClosed
	}
	t.waiting--
	t.add(r.m)
	return &errReset{reason}
}

// await has the log looked at, and waits for the members to get something, for a while.
func (r *replay) await(ctx context.Context) error {
	t := r.m.topic
	t.mu.Lock()
	if r.m.index == left {
		t.mu.Unlock()
		return ErrClosed
	}
	f := r.in.log
	if r.at == f.at || len(f.latest.behind(r.at)) > 0 {
		t.mu.Unlock()
		return nil
	}
	if f.latest.moved == nil {
		f.latest.moved = make(chan struct{})
	}
	moved, gone := f.latest.moved, r.m.leaving()
	t.mu.Unlock()
	r.in.mu.Lock()
	f.cursor.Lost()
	r.in.catchUp()
	r.in.mu.Unlock()
	select {
	case <-moved:
	case <-time.After(awaitMembers):
	case <-gone:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// awaitMembers is how long a client that is before the members waits until the log is read again.
const awaitMembers = 100 * time.Millisecond

// resumed is called when a client is not resumed any more.
func (in *subscription) resumed() {
	t := in.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &in.log.latest
	if l.clients--; l.clients == 0 {
		l.reset(in.log.at)
		l.ended = time.Now()
		in.forgetLater(keepPages)
	}
}

// forgetLater has forgetPages called, once for all clients that resume until then. topic.mu is held.
func (in *subscription) forgetLater(d time.Duration) {
	if l := &in.log.latest; !l.waits {
		l.waits = true
		time.AfterFunc(d, in.forgetPages)
	}
}

// forgetPages ends the sharing of what was read, unless clients resume or have resumed since.
func (in *subscription) forgetPages() {
	l := &in.log.latest
	in.topic.mu.Lock()
	l.waits = false
	unused := l.clients == 0
	if left := keepPages - time.Since(l.ended); unused && left > 0 {
		in.forgetLater(left)
		unused = false
	}
	in.topic.mu.Unlock()
	if unused {
		in.log.pages.drop()
	}
}
