// Package collect collects what is published often: the latest value of each key, in one message in an interval. For
// the positions of players, prices and gauges, of which a member wants all that have changed, many times a second.
//
// A hundred players who move twenty times a second are 200,000 messages a second to a hundred members. Collected for 50
// ms they are 2,000, each with the latest position of every player that has moved.
package collect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router"
)

// Options configure a [Collector]. The zero value is ready to use.
type Options struct {
	// Every is for how long values are collected, at least 1 ms: as much later members get them, at most.
	//
	// Default: 50 ms.
	Every time.Duration
	// MaxKeys is how many keys of a topic are collected in an interval. All of them have to fit into one message: see
	// router.Limits.MaxQueued.
	//
	// Default: 1,000.
	MaxKeys int
	// Publish are the options of the messages, without a Key, Except or ID.
	//
	// Default: those of router.PublishOptions.
	Publish router.PublishOptions
	// OnError is called when a message could not be published. Its values are dropped.
	//
	// Default: a log line for each topic and interval.
	OnError func(topic string, err error)
}

// Collector collects values of an event. Its methods may be called from any goroutine.
type Collector[T any] struct {
	event   router.Event[[]T]
	key     func(T) string
	options Options

	mu     sync.Mutex
	topics map[string]*collected[T] // those with a timer
}

// collected are the values of a topic since its last message, in the order in which their keys came.
type collected[T any] struct {
	values []T
	places map[string]int // of the keys, in values
}

// New makes a collector of an event, whose payload is a list. key says which values replace each other. It panics if an
// option makes no sense.
func New[T any](event router.Event[[]T], key func(T) string, options ...Options) *Collector[T] {
	o := given.Must("collect", "New", options)
	o.Every = cmp.Or(o.Every, 50*time.Millisecond)
	o.MaxKeys = cmp.Or(o.MaxKeys, 1000)
	switch p := o.Publish; {
	case key == nil:
		panic("collect: key is nil; give a function that tells what a value belongs to, such as the player")
	case o.Every < time.Millisecond:
		panic(fmt.Sprintf("collect: Options.Every is %v; set at least 1ms (0 for 50ms)", o.Every))
	case o.MaxKeys < 1:
		panic(fmt.Sprintf("collect: Options.MaxKeys is %d; set at least 1 (0 for 1,000)", o.MaxKeys))
	case p.Key != "" || p.Except != "" || p.ID != "":
		panic("collect: Options.Publish has a Key, Except or ID, which are for one message; remove them")
	}
	if o.OnError == nil {
		o.OnError = func(topic string, err error) {
			slog.Default().Warn("collect: a message could not be published; its values are dropped", "topic", topic, "error", err)
		}
	}
	return &Collector[T]{event: event, key: key, options: o, topics: map[string]*collected[T]{}}
}

// Publish collects a value for the members of a topic, in place of an earlier one of its key. They get it within
// Options.Every, in a message with all that was collected in this process. The hooks of the router see a message of the
// server, not of the client whose value it was.
//
// An error, RESOURCE_EXHAUSTED, means that Options.MaxKeys other keys were collected in this interval.
func (c *Collector[T]) Publish(topic string, value T) error {
	key := c.key(value)
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.topics[topic]
	if of == nil {
		of = &collected[T]{places: map[string]int{}}
		c.topics[topic] = of
		time.AfterFunc(c.options.Every, func() { c.flush(topic) })
	}
	if i, ok := of.places[key]; ok {
		of.values[i] = value
		return nil
	}
	if len(of.values) >= c.options.MaxKeys {
		return errors.ResourceExhausted.Errorf("collect: %d keys were collected for a topic in %v", c.options.MaxKeys, c.options.Every)
	}
	of.places[key] = len(of.values)
	of.values = append(of.values, value)
	return nil
}

// flush publishes what was collected for a topic. A topic for which nothing was has no timer.
func (c *Collector[T]) flush(topic string) {
	c.mu.Lock()
	of := c.topics[topic]
	values := of.values
	if len(values) == 0 {
		delete(c.topics, topic)
		c.mu.Unlock()
		return
	}
	of.values = make([]T, 0, len(values))
	clear(of.places)
	c.mu.Unlock()
	if err := c.event.Publish(context.Background(), topic, values, c.options.Publish); err != nil {
		c.options.OnError(topic, err)
	}
	time.AfterFunc(c.options.Every, func() { c.flush(topic) }) // not before: messages of a topic stay in order
}
