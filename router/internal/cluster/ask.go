package cluster

import (
	"cmp"
	"context"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// A Question is what a process has others ask their connections.
type Question struct {
	Type    string
	Payload []byte        // JSON, or nothing
	For     time.Duration // how long they may take to answer
}

// A Reply is what one connection has answered: a payload, or an error.
type Reply struct {
	Payload []byte
	Code    errors.Code // empty: none
	Message string
}

// maxAsking bounds how long connections of another process are asked.
const maxAsking = 24 * time.Hour

// foreign is a question of another process.
type foreign struct {
	process string
	ask     uint64
}

// Ask has other processes ask their connections, and returns how many they ask. It is not ok where one has too many, and
// asks none. The outcome of each connection is given to reply, perhaps before Ask returns, and not where a message between
// the processes is lost. When done is called, the connections that have not answered are not asked any more.
func (c *Cluster[C]) Ask(ctx context.Context, t Target, q Question, reply func(Reply)) (asked int, ok bool, done func(), err error) {
	topic := c.topicOfAll()
	if process, one := processOf(t.ID); one {
		topic = c.topicOf(process) // behind the question
	}
	c.mu.Lock()
	c.last++
	id := c.last
	c.asks[id] = reply
	c.mu.Unlock()
	done = func() {
		c.mu.Lock()
		delete(c.asks, id)
		c.mu.Unlock()
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.Timeout)
		defer cancel()
		_ = c.publish(over, topic, message[C]{Kind: kindOver, Ask: id}) // or their time is over
	}
	within := min(cmp.Or(q.For, maxAsking), maxAsking).Milliseconds()
	all, err := c.ask(ctx, t, message[C]{Do: doAsk, Ask: id, Type: q.Type, Payload: q.Payload, Timeout: max(1, within)})
	return all.n, !all.tooMany, done, err
}

// begins notes a question of another process, which ends it by kindOver. The context is over then, or when the time is.
func (c *Cluster[C]) begins(m *message[C]) context.Context {
	ctx, cancel := context.WithTimeout(c.config.Stop, time.Duration(m.Timeout)*time.Millisecond)
	c.mu.Lock()
	c.foreign[foreign{m.From, m.Ask}] = cancel
	c.mu.Unlock()
	return ctx
}

// asked has connections of this process asked a question of another one, and returns how many they are.
func (c *Cluster[C]) asked(ctx context.Context, m *message[C]) (n int, ok bool) {
	from, ask := m.From, m.Ask
	return c.config.Ask(ctx, m.target(), Question{Type: m.Type, Payload: m.Payload}, func(r Reply) {
		if ctx.Err() == context.Canceled {
			return // another connection was faster
		}
		out := message[C]{Kind: kindReply, From: c.id, Ask: ask, Payload: r.Payload, Failed: r.Code, Reason: r.Message}
		frame, err := out.encode()
		if err != nil {
			return
		}
		sending, stop := context.WithTimeout(context.WithoutCancel(ctx), c.config.Timeout)
		defer stop()
		// Without it, the other process waits until the time is over.
		_, _ = c.config.Broker.PublishCounted(sending, pubsub.Message{Topic: c.topicOf(from), Frame: frame})
	}, func() { c.over(foreign{from, ask}) })
}

// over ends a question of another process.
func (c *Cluster[C]) over(at foreign) {
	c.mu.Lock()
	cancel := c.foreign[at]
	delete(c.foreign, at)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// replied takes what a connection of another process has answered.
func (c *Cluster[C]) replied(m *message[C]) {
	c.mu.Lock()
	reply := c.asks[m.Ask]
	c.mu.Unlock()
	if reply != nil {
		reply(Reply{m.Payload, m.Failed, m.Reason})
	}
}
