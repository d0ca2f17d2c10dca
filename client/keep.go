package client

import (
	"context"
	"slices"

	"github.com/wskit/wskit/errors"
)

// Keeping is how [Keep] follows a topic with a history.
type Keeping struct {
	// Open makes the request that subscribes, and returns its error. It is called on each connection, and with all when
	// everything that the topic keeps has to come: at first, and when events were missed. The server then subscribes
	// anew, by Context.Unsubscribe and SubscribeFrom. Otherwise the topic was resumed. It is called by one goroutine;
	// ctx ends with the client, or with stop.
	Open func(ctx context.Context, all bool) error
	// Reset is called when the server has subscribed anew, before the first event: nothing that has come counts any
	// more. Like the handlers of events it is called by the one goroutine that calls them all.
	//
	// Default: nothing is called.
	Reset func()
}

// keeper is a topic that is kept.
type keeper struct {
	Keeping
	c     *Client
	topic string

	// Guarded by Client.mu.
	all     bool // at the next opening, everything has to come
	due     bool // events were missed, or opening has failed and may succeed later
	loading bool // Open was called with all
	begun   bool // the server has subscribed anew since
	opened  int  // on which connection
}

// Keep keeps what a program has of a topic complete: it opens the topic on each connection, with everything that the
// topic keeps at first and after each gap, and again after a pause where that fails. An error for which waiting does
// not help goes to Options.OnError, without a type, and the next connection opens again. stop ends that, and leaves the
// subscription as it is. Options.OnGap is called as without Keep. Keep panics without Keeping.Open.
func Keep(c *Client, topic string, keeping Keeping) (stop func()) {
	if keeping.Open == nil {
		panic("client: Keep without Keeping.Open; set it to the request that subscribes to the topic")
	}
	k := &keeper{Keeping: keeping, c: c, topic: topic, all: true}
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Phase != Closed {
		c.keepers = append(c.keepers, k)
		c.running.Go(func() { k.run(ctx) })
	}
	return cancel
}

// missed is called in the order of the events.
func (c *Client) missed(g Gap) {
	c.mu.Lock()
	for _, k := range c.keepers {
		if k.topic != g.Topic || k.loading && g.Reason == "subscribed" || g.Reason == reasonTooLarge {
			continue // the beginning of what is loaded is no gap, and loading does not bring what is too large
		}
		k.all, k.due = true, true
	}
	c.wakeWaiting()
	c.mu.Unlock()
	c.opts.OnGap(g)
}

func (k *keeper) run(ctx context.Context) {
	defer k.c.forgetKeeper(k)
	pause := k.c.opts.MinBackoff
	for {
		connection, all, ok := k.next(ctx)
		if !ok {
			return
		}
		err := k.open(ctx, all)
		e := errors.From(err)
		k.c.mu.Lock()
		k.loading = false
		if err != nil {
			k.all, k.due = k.all || all, k.due || e.Retryable()
		}
		here := k.c.state.Phase == Connected && k.c.state.Connections == connection
		k.c.mu.Unlock()
		switch {
		case err == nil:
			pause = k.c.opts.MinBackoff
		case e.Retryable():
			if !sleep(ctx, max(e.RetryAfter, pause)) {
				return
			}
			pause = min(2*pause, k.c.opts.MaxBackoff)
		case here && ctx.Err() == nil:
			k.c.opts.OnError("", err)
		}
	}
}

// next waits until the topic has to be opened.
func (k *keeper) next(ctx context.Context) (connection int, all, ok bool) {
	c := k.c
	for {
		c.mu.Lock()
		s, changed := c.state, c.changed
		if s.Phase == Connected && (k.due || k.opened != s.Connections) {
			all = k.all
			k.all, k.due, k.loading, k.begun, k.opened = false, false, all, false, s.Connections
			c.mu.Unlock()
			return s.Connections, all, true
		}
		c.mu.Unlock()
		if s.Phase == Closed {
			return 0, false, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, false, false
		}
	}
}

func (k *keeper) open(ctx context.Context, all bool) (err error) {
	defer contain(&err)
	return k.Open(ctx, all)
}

// begun has Reset called, in the order of the events, where a topic that is loaded begins. $ws:subscribed comes again
// where the server joins the topic, behind the events.
func (l *link) begun(topic string) error {
	l.c.mu.Lock()
	var keepers []*keeper
	for _, k := range l.c.keepers {
		if k.topic == topic && k.loading && !k.begun && k.Reset != nil {
			k.begun = true
			keepers = append(keepers, k)
		}
	}
	l.c.mu.Unlock()
	for _, k := range keepers {
		err := l.deliver(len(topic), func(context.Context) {
			if err := k.reset(); err != nil {
				l.c.opts.OnError("", err)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) reset() (err error) {
	defer contain(&err)
	k.Reset()
	return nil
}

func (c *Client) forgetKeeper(k *keeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepers = slices.DeleteFunc(c.keepers, func(have *keeper) bool { return have == k })
}
