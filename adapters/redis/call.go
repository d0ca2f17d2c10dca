package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/internal/batch"
)

// A call is what one caller asks in one round trip of one server.
type call struct {
	asks     []asks.Ask
	together bool // all are charged or none
}

// maxAsks is how many asks go into one script at most, give or take those of one
// call. It bounds how long a script keeps a server from others.
const maxAsks = 256

// trip sends a batch of calls to a server in one round trip.
func (s *store) trip(ctx context.Context, server any, batch []*batch.Item[call]) {
	w := works.Get().(*work)
	defer w.done()
	for _, item := range batch {
		s.plan(ctx, w, item)
	}
	s.figures.trips.Add(1)
	start := time.Now()
	s.send(ctx, w, server, w.commands)
	if again := s.notRun(ctx, w); len(again) > 0 {
		s.send(ctx, w, server, again)
	}
	took := time.Since(start)
	answered, decided := false, false
	for _, c := range w.commands {
		s.figures.sent.Add(int64(len(c.asks)))
		answered = answered || isAnswer(c.err)
		if c.err == nil {
			c.err = c.answer()
			decided = decided || c.err == nil
		}
	}
	if answered {
		s.figures.took(took)
		s.evictions.look(server)
	}
	for _, c := range w.commands {
		if c.err == nil {
			continue
		}
		s.figures.failures.Add(int64(len(c.asks)))
		s.errors.add(c.err, int64(len(c.asks)))
		err := s.failed(ctx, c.err, answered, took)
		for _, item := range c.items {
			item.Err = err
		}
	}
	s.answering.Store(decided)
}

// isAnswer reports whether a server that a command was sent to has answered.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	_, ok := errors.AsType[goredis.Error](err)
	return ok
}

// failed is the error of a call in a trip that took so long, and in which something was
// answered or nothing. Only then, and only if that is not because of the contexts of its
// callers, is the server one that does not answer.
func (s *store) failed(ctx context.Context, err error, answered bool, took time.Duration) error {
	late, left := lateness(ctx, err, took)
	if late {
		err = fmt.Errorf("redis: no answer within %v; round trips took %v before: %w",
			batch.Timeout(ctx), time.Duration(s.figures.roundTrip.Load()).Round(time.Microsecond), err)
	} else {
		err = fmt.Errorf("redis: %w", err)
	}
	if answered || left {
		return err
	}
	return batch.NotAnswered(err)
}

// lateness reports of the error of a trip that took so long whether the server did not
// answer in time, or the contexts of the callers ended before.
func lateness(ctx context.Context, err error, took time.Duration) (late, left bool) {
	wait, ok := errors.AsType[net.Error](err)
	late = ok && wait.Timeout()
	timeout := batch.Timeout(ctx)
	left = errors.Is(err, context.Canceled) || late && (timeout == 0 || took < timeout)
	return late && !left, left
}

// took adds a round trip to the average of the last ones.
func (f *figures) took(d time.Duration) {
	before := f.roundTrip.Load()
	if before != 0 {
		d = time.Duration(before) + (d-time.Duration(before))/8
	}
	f.roundTrip.Store(int64(d)) // that of another trip may get lost
}

// plan adds the asks of a call to the commands of the trip.
func (s *store) plan(ctx context.Context, w *work, item *batch.Item[call]) {
	if item.Value.together {
		c := w.command(s, true)
		for i := range item.Value.asks {
			c.add(item, &item.Value.asks[i])
		}
		return
	}
	for i := range item.Value.asks {
		a := &item.Value.asks[i]
		where, err := s.where.script(ctx, a.Key)
		if err != nil {
			item.Err = fmt.Errorf("redis: %w", err)
			continue
		}
		c := w.open[where]
		if c == nil || len(c.asks) >= maxAsks && c.items[len(c.items)-1] != item {
			c = w.command(s, false)
			w.open[where] = c
		}
		c.add(item, a)
	}
}

// send runs commands, and notes the error or the reply of each.
func (s *store) send(ctx context.Context, w *work, server any, commands []*command) {
	w.sent = w.sent[:0]
	for _, c := range commands {
		w.sent = append(w.sent, c.encode(ctx))
	}
	s.where.run(ctx, server, w.sent)
	for i, c := range commands {
		c.reply, c.err = w.sent[i].(once).Text()
	}
	clear(w.sent)
}

// notRun returns the commands that the server answers it did not run, to be sent a
// second and last time: with the whole script when it did not know it, which it
// then keeps; and key by key while their slot is moving, when some of them are
// here already and some still there.
func (s *store) notRun(ctx context.Context, w *work) (again []*command) {
	for i, n := 0, len(w.commands); i < n; i++ {
		c := w.commands[i]
		switch {
		case c.err == nil:
		case goredis.HasErrorPrefix(c.err, "NOSCRIPT"):
			s.figures.reloads.Add(1)
			c.whole = true
			again = append(again, c)
		case goredis.HasErrorPrefix(c.err, "TRYAGAIN") && !c.together && len(c.keys) > 1:
			byKey := map[string]*command{}
			for j, a := range c.asks {
				part := byKey[a.Key]
				if part == nil {
					part = w.command(s, false)
					part.whole = true
					byKey[a.Key] = part
					again = append(again, part)
				}
				part.add(c.items[j], a)
			}
			c.asks, c.items, c.err = c.asks[:0], c.items[:0], errSplit
		}
	}
	return again
}

var errSplit = errors.New("the command was sent key by key")

// work is what a trip needs, used again.
type work struct {
	commands []*command
	spare    []*command
	sent     []goredis.Cmder
	open     map[any]*command
}

var works = sync.Pool{New: func() any { return &work{open: map[any]*command{}} }}

func (w *work) command(s *store, together bool) *command {
	var c *command
	if n := len(w.spare); n > 0 {
		c, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		c = &command{index: map[string]int{}}
	}
	c.together = together
	if s.now != nil {
		c.now, c.injected = s.now(), true
	}
	w.commands = append(w.commands, c)
	return c
}

func (w *work) done() {
	for _, c := range w.commands {
		c.clear()
		w.spare = append(w.spare, c)
	}
	clear(w.commands)
	w.commands = w.commands[:0]
	clear(w.open)
	works.Put(w)
}

// once is a command that go-redis never sends a second time by itself.
type once struct{ *goredis.Cmd }

// NoRetry is what go-redis asks for.
func (once) NoRetry() bool { return true }

// Clone keeps that.
func (o once) Clone() goredis.Cmder { return once{o.Cmd.Clone().(*goredis.Cmd)} }

// parse reads the reply: the instant and the states.
func parse(reply string, keys int) (now string, states string, err error) {
	now, states, ok := strings.Cut(reply, ",")
	if !ok || strings.Count(states, ",") != keys-1 {
		return "", "", fmt.Errorf("the script replied %q for %d keys", reply, keys)
	}
	return now, states, nil
}
