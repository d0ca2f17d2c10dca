package hub

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/follow"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/logcache"
	"github.com/wskit/wskit/router/internal/wire"
)

// A process with members of a topic with history follows its log: what the subscription delivers
// passes the cursor, which finds what is missing. That is read from the log by a goroutine, one for
// each topic at most, which holds no lock while it waits.

// followed is what a subscription has of the log of its topic.
type followed struct {
	history *History
	prefix  []byte // of the topic's frames
	ctx     context.Context
	cancel  context.CancelFunc
	cursor  follow.Cursor // guarded by subscription.mu
	// at is where the members are: each has what comes up to it, and gets what comes behind it. It
	// changes with subscription.mu and topic.mu held, the latter for reading; either is enough to
	// read it, topic.mu only for writing.
	at     pubsub.Position
	latest logcache.Latest    // changes as at does, and is read with topic.mu locked for writing
	pages  logcache.Cache     // for clients that resume
	joined map[*Member][]byte // what members have joined with; guarded by topic.mu
}

const (
	// logcache.PageMessages and pageBytes bound what is read of a log at once.
	pageBytes = 256 << 10
	// readTimeout is the time for one call of a log.
	readTimeout = 10 * time.Second
	// A read that has failed is repeated after firstReadPause, then after twice as long, up to longestReadPause.
	firstReadPause   = 50 * time.Millisecond
	longestReadPause = 5 * time.Second
)

func (in *subscription) newFollowed() *followed {
	t := in.topic
	f := &followed{history: t.history, prefix: TopicPrefix(t.name)}
	f.cursor.Most = uint64(t.history.Replay)
	f.pages.Init(logcache.Source{Read: in.readPage, Frames: in.frames, Overhead: frameOverhead, Total: &in.hub.pages})
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.cursor.Read() // by begin: what comes before that is held
	return f
}

var (
	errPosition = errors.New("its position is not valid")
	errPrefix   = errors.New("it has not the topic in its meta, as messages of a topic with history have")
)

// begin gives the cursor its place: the end of the log. The subscription is in place already.
func (in *subscription) begin(ctx context.Context) (err error) {
	f := in.log
	done := false
	defer func() {
		if !done {
			in.end()
		}
	}()
	page, err := f.history.Log.Read(ctx, in.topic.name, f.history.Kept, pubsub.ReadOptions{})
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, _, _, ok := f.cursor.Page(page); !ok {
		return logcache.ErrPage
	}
	f.at = f.cursor.Position() // there are no members yet
	in.catchUp()
	done = true
	return nil
}

// follow takes what the broker delivers. in.mu is held.
func (in *subscription) follow(m pubsub.Message) (err error) {
	f := in.log
	switch {
	case m.Lost:
		f.cursor.Lost()
	case m.Position == pubsub.Position{}: // by a process that has not declared the history
		err = in.pass(m)
	case !follow.Valid(m.Position) || m.Position.Offset == 0:
		err = errPosition
	case f.cursor.Live(m):
		err = in.passAt(m)
	}
	in.catchUp()
	return err
}

// passAt delivers a message of the log to the members. One that is no event is left out: no router
// has appended it. in.mu is held.
func (in *subscription) passAt(m pubsub.Message) error {
	message, err := in.hub.Positioned(nil, &in.peeker, in.log.prefix, &m)
	t := in.topic
	t.mu.RLock()
	defer t.mu.RUnlock()
	if in.log.redacts(m.Frame) { // what has been read of the log may have the message
		in.log.latest.Reset(in.log.at)
		in.log.pages.Drop()
	}
	in.log.at = m.Position
	in.log.latest.Keep(m.Position, message.Frame(false))
	if err == nil && t.subscription == in {
		in.sent = t.send(&message, wire.Disconnect, "", "", &in.batch)
		in.hub.Counts.Delivered.Add(in.sent)
	}
	return err
}

// reset sends the members the position at which the topic goes on, and the reason. in.mu is held.
func (in *subscription) reset(reason pubsub.Loss, at pubsub.Position) {
	in.hub.WasReset(reason)
	reset := frame.Share(resetFrame(in.topic.name, reason, at))
	t := in.topic
	t.mu.RLock()
	defer t.mu.RUnlock()
	in.log.at = at
	in.log.latest.Reset(at)
	in.log.pages.Drop()
	if t.subscription == in {
		t.send(&reset, wire.Disconnect, "", "", &in.batch)
	}
}

// catchUp begins to read the log if that is due. in.mu is held.
func (in *subscription) catchUp() {
	if in.closed.Load() {
		return
	}
	if from, ok := in.log.cursor.Read(); ok {
		go in.read(from)
	}
}

// read reads the log until nothing is missing.
func (in *subscription) read(from pubsub.Position) {
	returned := false
	defer func() {
		if !returned { // the broker has called runtime.Goexit
			in.mu.Lock()
			defer in.mu.Unlock()
			in.log.cursor.Failed() // the next message, or look at the head, begins another
		}
	}()
	f, h := in.log, in.hub
	for pause, again := firstReadPause, true; again && !in.closed.Load(); {
		page, err := h.ReadLog(f.ctx, in.topic.name, f.history, pubsub.ReadOptions{From: from, Messages: logcache.PageMessages, Bytes: pageBytes})
		if err == nil {
			err = h.awaitTouch(f.ctx)
		}
		var foreign error
		if err == nil {
			in.mu.Lock()
			if foreign, err = in.take(page); err == nil {
				from, again = f.cursor.Read()
			}
			in.mu.Unlock()
			in.flush()
		}
		if foreign != nil {
			h.Refuse(in.topic.name, foreign)
		}
		if err == nil {
			h.logs.Works()
			pause = firstReadPause
			continue
		}
		if f.ctx.Err() != nil {
			break
		}
		h.logs.Failed(err, "topic", in.topic.name)
		h.Counts.ReadFailures.Add(1)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-f.ctx.Done():
		}
		pause = min(2*pause, longestReadPause)
		in.mu.Lock()
		f.cursor.Failed()
		from, again = f.cursor.Read()
		in.mu.Unlock()
	}
	returned = true
}

// take delivers a page. in.mu is held.
func (in *subscription) take(page pubsub.Page) (foreign, err error) {
	deliver, reset, at, ok := in.log.cursor.Page(page)
	if !ok {
		return nil, logcache.ErrPage
	}
	if reset != "" {
		in.reset(reset, at)
	}
	in.hub.Counts.Recovered.Add(int64(len(deliver)))
	for _, m := range deliver {
		if bad := in.passAt(m); bad != nil {
			foreign = bad
		}
	}
	return foreign, nil
}

// readPage reads messages for all clients that resume, so it does not end with one of them.
func (in *subscription) readPage(o pubsub.ReadOptions) (page pubsub.Page, err error) {
	page, err = in.hub.ReadLog(in.log.ctx, in.topic.name, in.log.history, o)
	switch {
	case err == nil:
		in.hub.logs.Works()
	case in.log.ctx.Err() == nil: // the topic has not just ended
		in.hub.logs.Failed(err, "topic", in.topic.name)
	}
	return page, err
}

// frames gives clients that resume the frames of messages, see logcache.Source.
func (in *subscription) frames(messages []pubsub.Message, add func(frame []byte)) {
	var peeker envelope.Peeker
	var foreign error
	var b []byte
	for i := range messages {
		message, err := in.hub.Positioned(b, &peeker, in.log.prefix, &messages[i])
		if err != nil {
			foreign = err
		} else {
			b = message.Frame(false)[:0]
		}
		add(message.Frame(false))
	}
	if foreign != nil {
		in.hub.Refuse(in.topic.name, foreign)
	}
}

// ReadLog is Log.Read with a bound on its time.
func (h *Hub) ReadLog(ctx context.Context, topic string, of *History, o pubsub.ReadOptions) (page pubsub.Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer h.containBroker("Read", &err)
	return of.Log.Read(ctx, topic, of.Kept, o)
}

// containBroker is deferred by a call of the broker. A panic becomes its error.
func (h *Hub) containBroker(method string, err *error) {
	if v := recover(); v != nil {
		*err = h.Panicked("the broker's "+method, v)
	}
}
