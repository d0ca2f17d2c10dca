package router

import (
	"context"
	"slices"

	"github.com/wskit/wskit/errors"
)

// Hooks are functions that a [Router] calls, for a library that the application uses: see
// [Router.AddHooks]. [Options] has fields of the same names, whose comments apply. A field that is nil is not called.
type Hooks struct {
	OnOpen          func(*Conn) error      // when a connection has been accepted; an error closes it
	OnClose         func(*Conn, CloseInfo) // when a connection of which OnOpen returned nil has ended
	OnError         func(Fault)            // for faults of the server
	OnLimitExceeded func(LimitInfo)        // for each frame that a limit rejects
	OnRefused       func(Refused)          // for each handshake and message that is refused otherwise

	// BeforePublish is called for each message that this process publishes to a topic, in whatever way, before its
	// payload is encoded. After an error nothing is published, and Publish returns it: a handler that returns a
	// rejection by a limit answers it like that of a frame. ratelimit.PerTopic makes one. It is called by the goroutine
	// that publishes, concurrently, and may wait for the network. A panic is an error. Messages to a [Target] and to a
	// connection are not published.
	//
	// Default: none.
	BeforePublish func(ctx context.Context, topic string) error
	// PublishMeta returns members for the meta of a message that is published, from the context
	// with which it is published; nil: none. Those of PublishOptions.Meta take precedence. If Meta has no room for
	// them, they are left out. It is called by the goroutine that publishes.
	//
	// Default: none.
	PublishMeta func(context.Context) Meta
	// OnDelivered is called when a message from Backend.Broker has been queued for members of its
	// topic in this process. The broker waits for it, and no lock is held. It is not called for what
	// is read from a log because it did not come in order.
	//
	// Default: none.
	OnDelivered func(Delivery)
	// OnTopic is called when a topic has got its first subscriber in this process, and when it has lost its last one:
	// [Router.LocalSubscribers] says which is true. After the last change of a topic there is a call, but calls may
	// come in any order, and concurrently. The goroutine that subscribes or unsubscribes makes it, so it must not
	// block.
	//
	// Default: none.
	OnTopic func(topic string)
	// OnShutdown is called when Shutdown begins, and Shutdown waits for it, and closes what it closes afterwards: for
	// work that goes on without a connection. ctx ends a tenth of the time of Shutdown before that, at most a second,
	// so that how it has ended can be published. It is called in a goroutine of its own.
	//
	// Default: none.
	OnShutdown func(ctx context.Context)
}

// AddHooks adds hooks to those of Options, which come first, and to those that were added before.
//
// The OnOpen hooks are called in the order in which they were added. If one returns an error or
// panics, the connection is closed, and later ones are not called. Then, or when the connection
// has ended, OnClose is called for exactly those Hooks whose OnOpen has returned nil, in the
// opposite order. Hooks without an OnOpen count like those whose OnOpen returns nil. So what
// an OnOpen has acquired can be released by the OnClose of the same Hooks.
//
// BeforePublish hooks are called in the order in which they were added, up to the first that returns an error. All
// other hooks, and OnClose, are called even if another one panics.
//
// AddHooks panics once the router has served a connection.
func (r *Router) AddHooks(h Hooks) {
	r.configure("AddHooks", func() { r.addHooks(h) })
}

// hooks are all hooks of a router. They are replaced as a whole: handshakes may be refused while
// more are added.
type hooks struct {
	all      []Hooks
	closes   bool // there is an OnClose
	faults   []func(Fault)
	exceeds  []func(LimitInfo)
	refusals []func(Refused)

	befores    []func(context.Context, string) error
	publishes  []func(context.Context) Meta
	deliveries []func(Delivery)
	topics     []func(string)
	shutdowns  []func(context.Context)
}

// addHooks is called with Router.mu locked, or by New.
func (r *Router) addHooks(h Hooks) {
	var next hooks
	if now := r.hooks.Load(); now != nil {
		next = *now
	}
	next.all = append(slices.Clip(next.all), h)
	next.closes = next.closes || h.OnClose != nil
	if h.OnError != nil {
		next.faults = append(slices.Clip(next.faults), h.OnError)
	}
	if h.OnLimitExceeded != nil {
		next.exceeds = append(slices.Clip(next.exceeds), h.OnLimitExceeded)
	}
	if h.OnRefused != nil {
		next.refusals = append(slices.Clip(next.refusals), h.OnRefused)
	}
	if h.BeforePublish != nil {
		next.befores = append(slices.Clip(next.befores), h.BeforePublish)
	}
	if h.PublishMeta != nil {
		next.publishes = append(slices.Clip(next.publishes), h.PublishMeta)
	}
	if h.OnDelivered != nil {
		next.deliveries = append(slices.Clip(next.deliveries), h.OnDelivered)
	}
	if h.OnTopic != nil {
		next.topics = append(slices.Clip(next.topics), h.OnTopic)
		r.hub.OnTopic = r.callOnTopic
	}
	if h.OnShutdown != nil {
		next.shutdowns = append(slices.Clip(next.shutdowns), h.OnShutdown)
	}
	r.hooks.Store(&next)
}

// beforePublish returns the first error of the BeforePublish hooks.
func (r *Router) beforePublish(ctx context.Context, topic string) error {
	for _, hook := range r.hooks.Load().befores {
		if err := callBeforePublish(hook, ctx, topic); err != nil {
			return err
		}
	}
	return nil
}

func callBeforePublish(hook func(context.Context, string) error, ctx context.Context, topic string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicFault{err: panicError("BeforePublish", v), stack: stack()}
		}
	}()
	return hook(lasting(ctx), topic)
}

// callAll calls all hooks in order, also after one that has called runtime.Goexit. call recovers
// from panics.
func callAll[F any](hooks []F, call func(F)) {
	if len(hooks) == 0 {
		return
	}
	defer callAll(hooks[1:], call)
	call(hooks[0])
}

// onOpen calls the OnOpen hooks, and counts those that have succeeded.
func (c *Conn) onOpen() error {
	r := c.router
	if r.draining.Load() {
		c.Close(errors.CloseGoingAway, drainReason(r.drainHint()))
		return r.drainError()
	}
	if err := c.makeAddressable(); err != nil {
		return err
	}
	c.rights = r.rights.Mark()
	for _, h := range r.hooks.Load().all {
		if err := c.callOnOpen(h.OnOpen); err != nil {
			return err
		}
		c.hooked++
	}
	return nil
}

func (c *Conn) callOnOpen(hook func(*Conn) error) (err error) {
	if hook == nil {
		return nil
	}
	defer c.router.containHook("OnOpen", c, &err)
	return hook(c)
}

// announce makes the OnClose hooks due of which OnOpen has succeeded. It reports false if the
// connection has ended: then it has called them.
func (c *Conn) announce() bool {
	if c.life.Announce() {
		return true
	}
	c.onClose()
	return false
}

// onClose calls the OnClose hooks, once.
func (c *Conn) onClose() {
	due := c.router.hooks.Load().all[:c.hooked]
	c.hooked = 0
	c.callOnClose(due, *c.info.Load())
}

// callOnClose calls the last hook, and then the others, whatever it does.
func (c *Conn) callOnClose(due []Hooks, info CloseInfo) {
	if len(due) == 0 {
		return
	}
	last := len(due) - 1
	defer c.callOnClose(due[:last], info)
	if due[last].OnClose == nil {
		return
	}
	defer c.router.containPanic("OnClose", c, "")
	due[last].OnClose(c, info)
}
