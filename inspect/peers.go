package inspect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// The processes ask each other through the broker of the router: each has subscribed a topic of all and one
// of its own.
const (
	topicAll = "$ws:inspect"
	// subscribePause is the time after which subscribing is tried again.
	subscribePause = time.Second
	// maxAnswer bounds the answer of a process, in bytes.
	maxAnswer = 1 << 20
	// knownFor is how long a process counts as one that should answer.
	knownFor = 5 * time.Minute
	// maxPeers bounds how many processes are known.
	maxPeers = 1000
)

type message struct {
	From   string  `json:"from"` // the id of the process
	Query  *query  `json:"query,omitzero"`
	Answer *answer `json:"answer,omitzero"`
	N      uint64  `json:"n"` // the number of the query
}

// peers are the other processes. It is safe for concurrent use.
type peers struct {
	i      *inspector
	broker pubsub.Broker // nil: there is none
	id     string

	mu    sync.Mutex
	last  uint64
	open  map[uint64]chan message
	known map[string]peer // by id
}

type peer struct {
	name string
	at   time.Time
}

func newPeers(i *inspector) *peers {
	p := &peers{i: i, broker: i.inside.Broker(), id: rand.Text(), open: make(map[uint64]chan message), known: make(map[string]peer)}
	if p.broker != nil {
		go p.subscribe()
	}
	return p
}

func topicOf(id string) string { return topicAll + ":" + id }

// subscribe keeps the subscriptions until the router has been shut down.
func (p *peers) subscribe() {
	ctx := p.i.inside.Context()
	for _, topic := range []string{topicOf(p.id), topicAll} {
		for {
			sub, err := p.broker.Subscribe(ctx, topic, p.receive)
			if err == nil {
				defer sub.Close()
				break
			}
			select {
			case <-time.After(subscribePause):
			case <-ctx.Done():
				return
			}
		}
	}
	<-ctx.Done()
}

// receive takes a message of another process. It waits for nothing.
func (p *peers) receive(in pubsub.Message) {
	var m message
	if len(in.Frame) > maxAnswer || json.Unmarshal(in.Frame, &m) != nil || m.From == p.id || len(m.From) > maxName {
		return
	}
	switch {
	case m.Answer != nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.known) < maxPeers {
			p.known[m.From] = peer{cut(m.Answer.Process, maxName), time.Now()}
		}
		if c := p.open[m.N]; c != nil {
			select {
			case c <- m:
			default: // more answers than processes
			}
		}
	case m.Query != nil:
		select {
		case p.i.answering <- struct{}{}:
			go func() {
				defer func() { <-p.i.answering }()
				p.answer(m)
			}()
		default: // the process does not answer
		}
	}
}

func (p *peers) answer(m message) {
	ctx, cancel := context.WithTimeout(context.Background(), p.i.o.Timeout)
	defer cancel()
	if isAction[m.Query.Do] {
		p.i.logAction(*m.Query)
	}
	a := p.i.local(ctx, *m.Query)
	frame, err := json.Marshal(message{From: p.id, N: m.N, Answer: &a})
	if err != nil || len(frame) > maxAnswer {
		frame, _ = json.Marshal(message{From: p.id, N: m.N, Answer: &answer{Process: p.i.o.Process, Error: "the answer is too large"}})
	}
	_ = p.broker.Publish(ctx, pubsub.Message{Topic: topicOf(m.From), Frame: frame}) // else this process does not answer
}

// ask has this process and all others answer. missing are the names of those that did not, as far as they are
// known: "" for one whose name is not.
func (p *peers) ask(ctx context.Context, q query) (answers []answer, missing []string) {
	ctx, cancel := context.WithTimeout(ctx, p.i.o.Timeout)
	defer cancel()
	if p.broker == nil || p.i.once(q.Do) {
		return []answer{p.i.local(ctx, q)}, nil
	}
	c := make(chan message, maxPeers)
	p.mu.Lock()
	p.last++
	n := p.last
	p.open[n] = c
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, n)
		p.mu.Unlock()
	}()
	others, err := p.publish(ctx, message{From: p.id, N: n, Query: &q})
	answers = append(answers, p.i.local(ctx, q))
	if err != nil {
		answers[0].Error = "the other processes are not reached"
	}
	got := make(map[string]bool)
	wait := others > 0
	for wait && len(got) < others {
		select {
		case m := <-c:
			if !got[m.From] {
				got[m.From] = true
				answers = append(answers, *m.Answer)
			}
		case <-ctx.Done():
			wait = false
		}
	}
	return answers, p.missing(got, others)
}

// publish sends a query to the others, and returns how many there are, as the broker counts them.
func (p *peers) publish(ctx context.Context, m message) (others int, err error) {
	frame, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	out := pubsub.Message{Topic: topicAll, Frame: frame}
	if b, ok := p.broker.(pubsub.ReceiverCounter); ok {
		n, err := b.PublishCounted(ctx, out)
		return max(0, n-1), err // this process is one
	}
	return maxPeers, p.broker.Publish(ctx, out)
}

// missing lists processes that were there and have not answered now.
func (p *peers) missing(got map[string]bool, others int) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, peer := range p.known {
		switch {
		case got[id]:
		case time.Since(peer.at) > knownFor || len(got) == others:
			delete(p.known, id) // it has ended: all that are there have answered
		default:
			names = append(names, peer.name)
		}
	}
	for others < maxPeers && len(names) < others-len(got) {
		names = append(names, "")
	}
	return names
}
