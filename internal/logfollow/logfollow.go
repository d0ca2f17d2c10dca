// Package logfollow reads a log of the backend from its beginning and goes on with it, so that all processes take the
// same messages in the same order. It is for small logs of decisions that processes share: rules, revocations.
package logfollow

import (
	"context"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// Follower follows a log from Start to Close. The exported fields do not change after Start. Its methods may be called
// from any goroutine.
type Follower struct {
	Log     pubsub.Log
	Topic   string
	History pubsub.History
	// Take gets the next message, and Restart, which may be nil, is called where the next one is the first again: the
	// log was lost, or this process is too far behind. Both are called by one goroutine.
	Take    func(pubsub.Message)
	Restart func()
	// Outage reports that the log cannot be read.
	Outage outage.Reporter

	wake  chan struct{} // something may have been appended
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	read    pubsub.Position
	synced  bool          // the log has been read to its end once
	changed chan struct{} // closed at the next change of the two
}

// pause is the time before a log that cannot be read is tried again.
const pause = time.Second

// Start begins to follow the log.
func (f *Follower) Start() {
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	f.wake, f.ended, f.changed = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go f.run(ctx)
}

// Close ends the following. No function is called when it has returned.
func (f *Follower) Close() {
	f.stop()
	<-f.ended
}

// Ended is closed by Close.
func (f *Follower) Ended() <-chan struct{} { return f.ended }

// ErrEnded is the error of waiting for a log that is not followed any more.
var ErrEnded = errors.Unavailable.New("the log is not followed any more")

// Await returns when the log has been read to its end once.
func (f *Follower) Await(ctx context.Context) error {
	return f.await(ctx, func() bool { return f.synced })
}

// Synced reports whether the log has been read to its end once.
func (f *Follower) Synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced
}

// Reach returns when a message has been taken that is in the log. It looks for it at once.
func (f *Follower) Reach(ctx context.Context, at pubsub.Position) error {
	f.Look()
	return f.await(ctx, func() bool { return f.read.Epoch == at.Epoch && f.read.Offset >= at.Offset })
}

func (f *Follower) await(ctx context.Context, reached func() bool) error {
	for {
		f.mu.Lock()
		ok, changed := reached(), f.changed
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-f.ended:
			return ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Look has the log read soon.
func (f *Follower) Look() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run follows the log until it is stopped.
func (f *Follower) run(ctx context.Context) {
	defer close(f.ended)
	var sub pubsub.Subscription
	defer func() {
		if sub != nil {
			_ = sub.Close()
		}
	}()
	for ctx.Err() == nil {
		var err error
		if sub == nil {
			sub, err = f.Log.Subscribe(ctx, f.Topic, func(pubsub.Message) { f.Look() })
		}
		if err == nil {
			err = f.catchUp(ctx)
		}
		var retry <-chan time.Time
		switch {
		case err == nil:
			f.Outage.Works()
		case ctx.Err() == nil:
			f.Outage.Failed(err)
			retry = time.After(pause)
		}
		select {
		case <-f.wake:
		case <-retry:
		case <-ctx.Done():
		}
	}
}

// catchUp reads the log to its end.
func (f *Follower) catchUp(ctx context.Context) error {
	for {
		o := pubsub.ReadOptions{From: f.read, Messages: f.History.Messages, Bytes: f.History.Bytes}
		page, err := f.Log.Read(ctx, f.Topic, f.History, o)
		if err != nil {
			return err
		}
		if page.Lost != pubsub.LossNone {
			if f.Restart != nil {
				f.Restart()
			}
			f.moved(pubsub.Position{}, false)
			continue
		}
		for _, m := range page.Messages {
			f.Take(m)
			f.moved(m.Position, false)
		}
		if !page.More {
			f.moved(page.Head, true)
			return nil
		}
	}
}

// moved records how far the log has been read.
func (f *Follower) moved(at pubsub.Position, synced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read == at && (f.synced || !synced) {
		return
	}
	f.read, f.synced = at, f.synced || synced
	close(f.changed)
	f.changed = make(chan struct{})
}
