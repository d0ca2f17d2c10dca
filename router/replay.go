package router

import (
	"cmp"
	"context"
	"runtime"
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
	r := replay{m: m, c: c, at: from, announce: announce, slot: replaySlot{slots: c.router.replaying}}
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
	m    *member
	c    *Conn
	in   *subscription
	at   pubsub.Position // up to which it has been sent
	sent int

	announce bool // send $ws:subscribed first
	slot     replaySlot
}

// replaySlot is the permission to work for a client that resumes. Few have it at the same moment: Go's
// scheduler looks at the network only when little else can run, so thousands that return at once
// would delay all others. It is not held while a client, the broker or a hook is waited for.
type replaySlot struct {
	slots chan struct{} // Router.replaying
	held  bool
}

// take waits for the slot, and lets others run before.
func (s *replaySlot) take() {
	s.slots <- struct{}{}
	s.held = true
	runtime.Gosched()
}

// leave gives the slot to the next client, if it is held.
func (s *replaySlot) leave() {
	if s.held {
		s.held = false
		<-s.slots
	}
}

// awaitRoom waits until n bytes can be queued, without the slot, and has that afterwards.
func (r *replay) awaitRoom(n int) error {
	if out := &r.c.stream.Out; !out.HasRoom(n) {
		r.slot.leave()
		if !out.AwaitRoom(n) {
			return ErrClosed
		}
	}
	if !r.slot.held {
		r.slot.take()
	}
	return nil
}

func (r *replay) run(ctx context.Context) error {
	t := r.m.topic
	if t.history == nil { // any more
		return errNoHistory
	}
	if err := r.m.wait(ctx, r.c.router); err != nil {
		return err
	}
	r.slot.take()
	defer r.slot.leave()
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
		r.slot.leave()
		_, lost, err := r.in.behind(ctx, r.at)
		if err != nil {
			return err
		}
		return r.reset(cmp.Or(lost, follow.LossTooFar))
	}
	for {
		if err := r.awaitRoom(0); err != nil { // for what it gets as a member
			return err
		}
		list, joined, err := r.meet()
		if joined || err != nil {
			return err
		}
		if len(list) == 0 {
			r.slot.leave()
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
		for i := range list {
			if err := r.queue(&list[i]); err != nil {
				return nil, false, err
			}
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

// queue queues a message.
func (r *replay) queue(l *logged) error {
	if l.frame != nil {
		if _, err := r.c.stream.Out.AppendShared(l.frame, wire.Disconnect, ""); err != nil {
			return ErrClosed
		}
		if r.c.traced.Load() {
			r.c.traceFrame(l.frame)
		}
		r.sent++
	}
	r.at = l.at
	return nil
}

// send sends messages, each when there is room for it.
func (r *replay) send(ctx context.Context, list []logged) error {
	out := &r.c.stream.Out
	for i := 0; i < len(list); r.slot.leave() {
		if err := r.awaitRoom(len(list[i].frame)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.c.life.State() != life.Open {
			return r.c.router.drainError()
		}
		for ; i < len(list) && out.HasRoom(len(list[i].frame)); i++ {
			if err := r.queue(&list[i]); err != nil {
				return err
			}
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
	f := r.in.log
	if r.at == f.at || len(f.latest.behind(r.at)) > 0 {
		t.mu.Unlock()
		return nil
	}
	if f.latest.moved == nil {
		f.latest.moved = make(chan struct{})
	}
	moved := f.latest.moved
	t.mu.Unlock()
	r.in.mu.Lock()
	f.cursor.Lost()
	r.in.catchUp()
	r.in.mu.Unlock()
	select {
	case <-moved:
	case <-time.After(awaitMembers):
	case <-r.m.gone:
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
		time.AfterFunc(keepPages, in.forgetPages)
	}
}

// forgetPages ends the sharing of what was read, unless clients resume.
func (in *subscription) forgetPages() {
	in.topic.mu.RLock()
	unused := in.log.latest.clients == 0 && time.Since(in.log.latest.ended) >= keepPages
	in.topic.mu.RUnlock()
	if unused {
		in.log.pages.drop()
	}
}
