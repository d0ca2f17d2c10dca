package hub

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/follow"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/logcache"
	"github.com/wskit/wskit/router/internal/wire"
)

// A client that resumes a topic is sent what it has missed, page by page, each when the ones before
// have left but for half of Limits.MaxQueued. It becomes a member at the moment at which it has what
// the members have. So that this moment comes on a busy topic as well, the topic keeps what it has
// delivered last while clients resume.

// atOnce is how much of that is sent with the topic locked, before the client becomes a member.
const atOnce = 16

// Reset is why a client cannot be resumed.
type Reset struct{ Reason pubsub.Loss }

func (e *Reset) Error() string { return "router: not resumed: " + string(e.Reason) }

// LossJoined means that the connection is a member already, and cannot go back.
const LossJoined pubsub.Loss = "subscribed"

// SubscribeFrom makes the connection a member of a topic, after what was published since a position. It sends
// $ws:subscribed before. If the error is a Reset, it is a member nevertheless, but for LossJoined, and got $ws:reset.
func (p *Peer) SubscribeFrom(ctx context.Context, name string, from pubsub.Position, terms Terms) error {
	m, err := p.place(ctx, name, terms)
	if m == nil && err == nil {
		err = &Reset{LossJoined}
	}
	if err != nil {
		return err
	}
	_, _, err = p.replay(ctx, replay{m: m, p: p, at: from, announce: true})
	return err
}

// Resume is SubscribeFrom for a client that was a member on another connection, and needs no $ws:subscribed. A
// connection that is a member already, because the server has subscribed it when it was opened, goes back to the
// position, once. Then it gets $ws:subscribed, which says so: its client drops what has come before. Resume returns how
// many messages were sent, and where the connection is.
func (p *Peer) Resume(ctx context.Context, name string, from pubsub.Position, terms Terms) (replayed int, at pubsub.Position, err error) {
	m, err := p.place(ctx, name, terms)
	back := m == nil && err == nil
	if back {
		if m = p.Member(name); m == nil || !m.goBack() {
			err = &Reset{LossJoined}
		}
	}
	if err != nil {
		return 0, at, err
	}
	return p.replay(ctx, replay{m: m, p: p, at: from, back: back})
}

func (p *Peer) replay(ctx context.Context, r replay) (replayed int, at pubsub.Position, err error) {
	m := r.m
	err = r.run(ctx)
	if _, reset := errors.AsType[*Reset](err); err == nil || reset {
		p.settle(m)
		p.Out.Flush()
		return r.sent, r.at, err
	}
	p.takeOff(m)
	return r.sent, r.at, err
}

// replay is what is sent to one client of one topic.
type replay struct {
	m       *Member
	p       *Peer
	in      *subscription
	at      pubsub.Position // up to which it has been sent
	sent    int
	hadTurn bool // in which messages were sent

	announce bool // send $ws:subscribed first
	back     bool // the same, and it was a member
}

func (r *replay) run(ctx context.Context) error {
	t := r.m.topic
	if t.history == nil { // any more
		return ErrNoHistory
	}
	if !r.back {
		if err := r.m.wait(ctx); err != nil {
			return err
		}
	}
	r.p.hub.Turns.Await() // thousands may have waited for the subscription
	t.mu.Lock()
	r.in = t.subscription
	if r.in == nil { // the member has left
		t.mu.Unlock()
		return ErrClosed
	}
	f := r.in.log
	r.m.resumed = r.m.resumed || !r.announce
	joined, until := f.joined[r.m], r.m.until()
	f.latest.Begin(f.at)
	tooFar := f.at.Epoch == r.at.Epoch && t.history.Replay > 0 && f.at.Offset > r.at.Offset+uint64(t.history.Replay)
	t.mu.Unlock()
	f.pages.Acquire()
	defer r.in.resumed()
	if r.announce || r.back {
		if err := r.announceNow(joined, until); err != nil {
			return err
		}
	}
	if tooFar {
		// The log may have lost what is at the position, and used its offset again.
		_, lost, err := f.pages.After(ctx, r.at)
		if err != nil {
			return err
		}
		return r.reset(cmp.Or(lost, follow.LossTooFar))
	}
	for {
		if !r.p.Out.AwaitRoom(0) { // for what it gets as a member
			return ErrClosed
		}
		if err := r.p.hub.awaitTouch(ctx); err != nil {
			return err
		}
		list, joined, err := r.meet()
		if joined || err != nil {
			return err
		}
		if len(list) == 0 {
			var lost pubsub.Loss
			switch list, lost, err = f.pages.After(ctx, r.at); {
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
func (r *replay) meet() (list []logcache.Message, joined bool, err error) {
	t := r.m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.m.index == left {
		return nil, false, ErrClosed
	}
	f := r.in.log
	if r.at != f.at {
		list = f.latest.After(r.at)
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
func (r *replay) room(list []logcache.Message) bool {
	n := 0
	for i := range list {
		n += len(list[i].Frame)
	}
	return n <= r.p.hub.MaxQueued/2 && r.p.Out.HasRoom(n)
}

// queue queues the messages at the beginning of a list that lie behind one another in memory and have at most room
// bytes, and returns how many these are.
func (r *replay) queue(list []logcache.Message, room int) (n int, err error) {
	run, frames, n := logcache.Run(list, room)
	if n == 0 {
		return 0, nil
	}
	if err := r.p.Out.AppendRun(run, frames); err != nil {
		return 0, ErrClosed
	}
	if r.p.Traced.Load() {
		for i := range list[:n] {
			if list[i].Frame != nil {
				r.p.Host.Trace(wire.Payload(list[i].Frame))
			}
		}
	}
	r.sent += frames
	r.at = list[n-1].At
	return n, nil
}

// announceNow sends $ws:subscribed, unless the member has left.
func (r *replay) announceNow(joined []byte, until time.Time) error {
	r.m.topic.mu.RLock()
	defer r.m.topic.mu.RUnlock()
	if r.m.index == left {
		return ErrClosed
	}
	return r.m.announce(r.at, joined, until, r.back)
}

// queueNow queues what there is room for, unless the member has left.
func (r *replay) queueNow(list []logcache.Message) (n int, err error) {
	t := r.m.topic
	t.mu.RLock()
	defer t.mu.RUnlock()
	if r.m.index == left {
		return 0, ErrClosed
	}
	return r.queue(list, r.p.Out.Room(len(list[0].Frame)))
}

// send sends messages, each when there is room for it, and what there is room for in one turn.
func (r *replay) send(ctx context.Context, list []logcache.Message) error {
	out := r.p.Out
	for i := 0; i < len(list); {
		if !out.AwaitRoom(len(list[i].Frame)) {
			return ErrClosed
		}
		if r.hadTurn {
			r.p.hub.Turns.Again()
		} else {
			r.p.hub.Turns.Await()
		}
		r.hadTurn = true
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.p.Host.MayReplay(); err != nil {
			return err
		}
		if err := r.p.hub.awaitTouch(ctx); err != nil {
			return err
		}
		for i < len(list) {
			n, err := r.queueNow(list[i:])
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
	reset := frame.Share(resetFrame(t.name, reason, r.at))
	if _, err := r.p.Out.AppendShared(reset.Frame(false), wire.Disconnect, ""); err != nil {
		return ErrClosed
	}
	t.waiting--
	t.add(r.m)
	return &Reset{reason}
}

// await begins a look at the end of the log, and waits for the members to get something, for a while.
func (r *replay) await(ctx context.Context) error {
	t := r.m.topic
	t.mu.Lock()
	if r.m.index == left {
		t.mu.Unlock()
		return ErrClosed
	}
	f := r.in.log
	if r.at == f.at || len(f.latest.After(r.at)) > 0 {
		t.mu.Unlock()
		return nil
	}
	moved, gone := f.latest.Moved(), r.m.leaving()
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
	in.topic.mu.Lock()
	in.log.latest.End(in.log.at)
	in.topic.mu.Unlock()
	in.log.pages.Release()
}
