package router

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
)

// HistoryOptions say how much of a topic is kept, for clients that reconnect or that join later. A
// message is removed when one of the three bounds is exceeded.
type HistoryOptions struct {
	// Messages is how many messages are kept.
	//
	// Default: 1,000.
	Messages int

	// Bytes is the size of the messages that are kept. The last message is kept whatever
	// its size.
	//
	// Default: 1 MiB.
	Bytes int

	// Age is how long a message is kept.
	//
	// Default: 1 h. At least 1 s.
	Age time.Duration

	// Replay is how many messages a client gets at most when it resumes. If it has missed
	// more, it is not resumed, with the reason tooFar. The same holds for a process that has
	// missed messages while the broker failed.
	//
	// Default: all that are kept.
	Replay int
}

func (o HistoryOptions) withDefaults() (HistoryOptions, error) {
	o.Messages = cmp.Or(o.Messages, 1000)
	o.Bytes = cmp.Or(o.Bytes, 1<<20)
	o.Age = cmp.Or(o.Age, time.Hour)
	switch {
	case o.Messages < 0 || o.Bytes < 0 || o.Replay < 0:
		return o, fmt.Errorf("holds a negative value; all are positive, and 0 stands for the default")
	case o.Age < time.Second:
		return o, fmt.Errorf("the Age is %v; it must be at least 1s (0 for 1h)", o.Age)
	}
	return o, nil
}

// History declares that topics have a history: their messages are kept in a log, each has a
// position, and a client gets every message after its position once and in order, or a
// $ws:reset with the reason. docs/delivery.md says what is guaranteed, what can be lost nevertheless and
// how that shows; PROTOCOL.md has the frames.
//
// topics is the name of a topic, or the beginning of names followed by "*", such as "room:*". If
// several declarations fit a topic, the one with the longest name or beginning applies, and one
// without "*" before others. All processes that share a broker have to declare the same.
//
// What is published to such a topic is appended to its log. PublishOptions.ID makes that safe
// to repeat. Each subscriber gets it, also the one that publishes. An Except, and an
// Overflow other than OverflowDisconnect, are refused, since they would make gaps; a client that was closed
// because it was too slow resumes.
//
// Backend.Broker has to be a [pubsub.Log]; without a broker, the log is in the memory of this process. History panics
// if the broker is none, if topics is empty or was declared before, if an option is not valid, and once the router has
// served a connection.
func (r *Router) History(topics string, options ...HistoryOptions) {
	o := given.Must("router", "the history of "+strconv.Quote(topics), options)
	o, err := o.withDefaults()
	if err != nil {
		panic(fmt.Sprintf("router: HistoryOptions of %q: %v", topics, err))
	}
	prefix, wild := strings.CutSuffix(topics, "*")
	if topics == "" || len(topics) > hub.MaxTopicLength {
		panic(fmt.Sprintf("router: History of %q: a topic's name has 1 to %d bytes; name the topics, or use \"*\" for all", topics, hub.MaxTopicLength))
	}
	h := &hub.History{Kept: pubsub.History{Messages: o.Messages, Bytes: o.Bytes, Age: o.Age.Truncate(time.Millisecond)}, Replay: o.Replay}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustNotServe("the history of " + topics)
	h.Log = r.historyLog(topics)
	old := r.histories.Load()
	if old == nil {
		old = new(histories)
	}
	all := &histories{exact: maps.Clone(old.exact), prefixes: maps.Clone(old.prefixes)}
	into := &all.exact
	if wild {
		into = &all.prefixes
	}
	if _, ok := (*into)[prefix]; ok {
		panic(fmt.Sprintf("router: the history of %q is declared twice; remove one declaration", topics))
	}
	if *into == nil {
		*into = make(map[string]*hub.History)
	}
	(*into)[prefix] = h
	r.histories.Store(all)
}

// historyLog returns where logs are kept. r.mu is held.
func (r *Router) historyLog(topics string) pubsub.Log {
	b := &r.opts.Backend.Broker
	if *b == nil {
		*b = memory.NewBroker()
		r.hub.Broker = *b
	}
	log, ok := (*b).(pubsub.Log)
	if !ok {
		panic(fmt.Sprintf("router: the topics %q cannot have a history, since Backend.Broker is %T and not a pubsub.Log; set it to redis.NewBroker, or leave it out for one process", topics, *b))
	}
	return log
}

// histories are all declarations. They are never changed.
type histories struct {
	exact    map[string]*hub.History
	prefixes map[string]*hub.History
}

// historyOf returns what was declared for a topic, nil if it has no history.
func (r *Router) historyOf(topic string) *hub.History {
	all := r.histories.Load()
	if all == nil || hub.IsReserved(topic) {
		return nil
	}
	if h := all.exact[topic]; h != nil {
		return h
	}
	var found *hub.History
	longest := -1
	for prefix, h := range all.prefixes {
		if len(prefix) > longest && strings.HasPrefix(topic, prefix) {
			found, longest = h, len(prefix)
		}
	}
	return found
}

// checkAppend checks the options that a history allows, or needs.
func checkAppend(kept bool, o PublishOptions) error {
	switch {
	case !kept && o.ID != "":
		return errors.Internal.Errorf("router: PublishOptions.ID is for topics with history; declare it with Router.History, or leave ID empty")
	case len(o.ID) > pubsub.MaxIDLength:
		return errors.InvalidArgument.Errorf("PublishOptions.ID has at most %d bytes, this one %d", pubsub.MaxIDLength, len(o.ID))
	case kept && o.LocalOnly:
		return errors.Internal.Errorf("router: PublishOptions.LocalOnly would leave the message out of the topic's log; leave LocalOnly out, or publish to a topic without history")
	case kept && o.Except != "":
		return errors.Internal.Errorf("router: PublishOptions.Except would make gaps in a topic with history; remove it, and let the page ignore what it has published")
	case kept && o.Overflow != OverflowDisconnect:
		return errors.Internal.Errorf("router: PublishOptions.Overflow would make gaps in a topic with history; leave it out: a client that was closed because it is slow resumes")
	}
	return nil
}
