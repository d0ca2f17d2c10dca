package clienttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// Payload is that of all messages, in both directions.
type Payload struct {
	ID    string `json:"id,omitzero"`
	Text  string `json:"text,omitzero"`
	Topic string `json:"topic,omitzero"`
	Ms    int    `json:"ms,omitzero"`
	N     int    `json:"n,omitzero"`
	All   bool   `json:"all,omitzero"`
}

// Answer is a client's answer to "confirm".
type Answer struct {
	Yes bool `json:"yes"`
}

// topics counts the events of each topic, whatever becomes of the servers.
type topics struct {
	mu   sync.Mutex
	last map[string]int
}

// publish publishes the next event of a topic. The topics are locked until then, so that the numbers
// are in the order of the log.
func (t *topics) publish(topic string, publish func(n int) error) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]int{}
	}
	n = t.last[topic] + 1
	if err := publish(n); err != nil {
		return 0, err
	}
	t.last[topic] = n
	return n, nil
}

// write is the handler of the runs "write" and "rewrite".
func write(ctx context.Context, m Payload, w *run.Writer) error {
	words, begun := strings.Fields(m.Text), 0
	resumed, err := w.Resume(&begun)
	if err != nil {
		return err
	}
	for n := begun; n < len(words); n++ {
		if err := wait(ctx, milliseconds(m.Ms)); err != nil {
			return err
		}
		var text string
		switch words[n] {
		case "EVENT":
			err = w.Event(Payload{N: n})
		case "ASK":
			text, err = run.Ask[string](ctx, w, Payload{Text: "which word?"})
		case "INPUT":
			var data json.RawMessage
			if data, err = w.Input(ctx); err == nil {
				err = json.Unmarshal(data, &text)
			}
		case "CHECKPOINT":
			err = w.Checkpoint(n + 1)
		case "RESUMED":
			if text = "first"; resumed {
				text = "again"
			}
		case "FAIL":
			err = errors.FailedPrecondition.New("as asked")
		default:
			text = words[n]
		}
		if err == nil && text != "" {
			err = w.Text(text + " ")
		}
		if err != nil {
			return err
		}
	}
	return w.Done(Payload{N: len(words)})
}

// register registers the routes of the package documentation.
func (s *Server) register(i *instance) {
	r := i.router
	r.History("history:*", router.HistoryOptions{Messages: 100})
	r.UseHandler(func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			if m, ok := c.Message().(*Payload); ok {
				s.record.executed(c, m.ID)
			}
			return next(c)
		}
	})
	concurrent := router.RouteOptions{Concurrent: true}
	limited := r.With(s.flood.middleware)
	echo := func(_ *router.Context, m Payload) (Payload, error) { return m, nil }
	nothing := func(*router.Context, Payload) error { return nil }
	count := func(_ *router.Context, m Payload) (Payload, error) {
		m.N = s.record.executions(m.ID)
		return m, nil
	}
	router.RPC(r, "echo", echo)
	router.RPC(r, "slow", func(c *router.Context, m Payload) (Payload, error) {
		return m, wait(c, milliseconds(m.Ms))
	}, concurrent)
	router.RPC(r, "progress", func(c *router.Context, m Payload) (Payload, error) {
		for n := range m.N {
			if err := wait(c, milliseconds(m.Ms)); err != nil {
				return m, err
			}
			if err := c.Progress(Payload{N: n + 1}); err != nil {
				return m, err
			}
		}
		return m, nil
	}, concurrent)
	router.RPC(r, "count", count)
	router.RPC(r, "count.once", count)
	router.RPC(r, "fail", func(_ *router.Context, m Payload) (Payload, error) {
		err := errors.Code(m.Text).New("as asked")
		if m.Ms > 0 {
			err = err.WithRetryAfter(milliseconds(m.Ms))
			err.Retry = true
		}
		return m, err
	})
	router.RPC(r, "big", func(_ *router.Context, m Payload) (Payload, error) {
		m.Text = strings.Repeat("x", m.N)
		return m, nil
	})
	router.On(r, "note", nothing)
	router.RPC(limited, "limited", echo)
	router.On(limited, "limited.note", nothing)
	router.RPC(r, "join", func(c *router.Context, m Payload) (Payload, error) { return m, c.Subscribe(m.Topic) })
	router.RPC(r, "leave", func(c *router.Context, m Payload) (Payload, error) {
		c.Unsubscribe(m.Topic)
		return m, nil
	})
	router.RPC(r, "open", func(c *router.Context, m Payload) (Payload, error) {
		if !m.All {
			return m, c.Subscribe(m.Topic)
		}
		c.Unsubscribe(m.Topic)
		if err := c.SubscribeFrom(m.Topic, ""); err != nil {
			return m, err
		}
		return m, c.Subscribe(m.Topic) // as Join does, where members are shown
	})
	router.RPC(r, "say", func(c *router.Context, m Payload) (Payload, error) {
		n, err := s.topics.publish(m.Topic, func(n int) error {
			m.N = n
			return c.Publish(m.Topic, "said", m)
		})
		m.N = n
		return m, err
	})
	if i.runs != nil {
		run.Handle(i.runs, "write", write)
		run.Handle(i.runs, "rewrite", write, run.HandleOptions{Restartable: true})
	}
	i.confirm = router.DeclareQuestion[Payload, Answer](r, "confirm")
	router.RPC(r, "ask", func(c *router.Context, m Payload) (Answer, error) {
		return i.confirm.Ask(c, c.Conn(), m)
	})
	router.RPC(r, "whoami", func(c *router.Context, _ Payload) (string, error) { return c.Identity.User, nil })
}

// wait waits for a time or until the request is cancelled.
func wait(ctx context.Context, d time.Duration) error {
	if !pause(d, ctx.Done()) {
		return ctx.Err()
	}
	return nil
}

// pause lets a time pass that a test of a client asked for: clients of other languages have clocks of their own, so it
// is real. It reports whether all of it passed before end was closed.
func pause(d time.Duration, end <-chan struct{}) bool {
	select {
	case <-time.After(d):
		return true
	case <-end:
		return false
	}
}

// PublishOptions are those of [Server.Publish].
type PublishOptions struct {
	Topic string `json:"topic"`
	N     int    `json:"n"` // default: 1
	Text  string `json:"text"`
}

// Published has the numbers of the first and the last event.
type Published struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Publish publishes events "said" from the first server.
func (s *Server) Publish(o PublishOptions) (p Published, err error) {
	i, err := s.instance()
	if err != nil {
		return p, err
	}
	for range max(o.N, 1) {
		n, err := s.topics.publish(o.Topic, func(n int) error {
			return i.router.Publish(context.Background(), o.Topic, "said", Payload{Topic: o.Topic, N: n, Text: o.Text})
		})
		if err != nil {
			return p, err
		}
		if p.To = n; p.From == 0 {
			p.From = n
		}
	}
	return p, nil
}

func (s *Server) instance() (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) == 0 {
		return nil, errors.New("the server does not run")
	}
	return s.running[s.used], nil
}

// TrimOptions are those of [Server.Trim].
type TrimOptions struct {
	Topic string `json:"topic"`
}

// Trim publishes so many events to a topic with history that its earlier ones are removed.
func (s *Server) Trim(o TrimOptions) (Published, error) {
	return s.Publish(PublishOptions{Topic: o.Topic, N: 101})
}

// AskOptions are those of [Server.Ask].
type AskOptions struct {
	User      string `json:"user"` // default: all
	Text      string `json:"text"`
	ID        string `json:"id"`
	TimeoutMs int    `json:"timeoutMs"` // default: that of router.Question
}

// Answered is the answer of one client, or the code of its error.
type Answered struct {
	User   string `json:"user"`
	Answer Answer `json:"answer"`
	Code   string `json:"code,omitempty"`
}

// Ask asks clients "confirm" and waits for all answers.
func (s *Server) Ask(o AskOptions) (all []Answered, err error) {
	ctx := context.Background()
	if o.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, milliseconds(o.TimeoutMs))
		defer cancel()
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	s.awaitOpened()
	for _, i := range s.instances() {
		for _, c := range i.of(o.User) {
			asking.Go(func() {
				a, err := i.confirm.Ask(ctx, c, Payload{ID: o.ID, Text: o.Text})
				one := Answered{User: c.Identity().User, Answer: a}
				if err != nil {
					one.Code = string(errors.CodeOf(err))
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, one)
			})
		}
	}
	asking.Wait()
	if len(all) == 0 {
		return nil, fmt.Errorf("no client of user %q is connected", o.User)
	}
	return all, nil
}

func (s *Server) instances() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.running)
}
