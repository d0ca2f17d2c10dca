package runcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/client/runs"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/run"
)

// User begins runs, one after the other. Its methods are called by one goroutine.
type User struct {
	// Dial opens a connection of the user to any server. It may be called from several goroutines.
	Dial func(ctx context.Context) (*client.Client, error)
	// Losses counts when the backend begins to lose what it has acknowledged, and when it does so no more.
	Losses func() int64
	Rand   *rand.Rand
	Report *Report
}

// Dial returns the Dial of a user with a token, at any of the addresses of servers.
func Dial(token string, addrs []string) func(ctx context.Context) (*client.Client, error) {
	o := client.Options{
		Token:        func(context.Context) (string, error) { return token, nil },
		PingInterval: time.Second, PongTimeout: 2 * time.Second, // a network may lose all that it carries
		MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second,
		OnGap: func(client.Gap) {}, Logger: slog.New(slog.DiscardHandler),
	}
	return func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, "ws://"+addrs[rand.IntN(len(addrs))], o)
	}
}

// watched is how long a run may go without an end: longer than any fault lasts, on a machine that is busy.
const watched = 3 * time.Minute

// Rounds begins runs until ctx ends, and watches the last one to its end.
func (u *User) Rounds(ctx context.Context) {
	for ctx.Err() == nil {
		u.round(context.WithoutCancel(ctx))
	}
}

// round begins a run, watches it to its end, and checks it. A run that did not begin is no round.
func (u *User) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watched)
	defer cancel()
	o := &round{typ: "count", most: 20 + u.Rand.IntN(200), messages: make(map[string]fate)}
	if u.Rand.IntN(2) == 0 {
		o.typ = "steps"
	}
	before := u.Losses()
	var err error
	if o.id, err = u.start(ctx, o.typ, o.most); err != nil {
		u.failed("a run", err)
		_ = sleep(ctx, 10*step)
		return
	}
	if err := u.follow(ctx, o); err != nil {
		u.Report.violated(fmt.Sprintf("no end: %s; %s", u.describe(o.id), o))
		return
	}
	for o.later == nil {
		now := u.Losses()
		later, err := u.attachLater(ctx, o.id)
		if err != nil {
			u.Report.violated(fmt.Sprintf("clients that come later wait for ever: %s; %s", u.describe(o.id), o))
			return
		}
		if now%2 == 0 && now == u.Losses() { // nothing was lost between them
			o.later = later
			o.loss = now != before || before%2 != 0
		}
	}
	u.Report.take(o)
}

// describe is what a server says of a run.
func (u *User) describe(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := u.Dial(ctx)
	if err != nil {
		return err.Error()
	}
	defer c.Close(ctx)
	whole, err := client.Request[json.RawMessage](ctx, c, "run.attach", run.Ref{Run: id})
	return fmt.Sprintf("a server says %s, %v", whole, err)
}

// start begins a run.
func (u *User) start(ctx context.Context, typ string, most int) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := u.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	r, err := runs.Start(ctx, c, typ, most)
	if err != nil {
		return "", err
	}
	return r.ID(), nil
}

// follow watches a run to its end on two devices, and gives it messages or stops it.
func (u *User) follow(ctx context.Context, o *round) error {
	var wait sync.WaitGroup
	var mu sync.Mutex // guards o and failed
	var failed error
	for range 2 {
		late, reloads := u.someTime(500*time.Millisecond), u.Rand.IntN(3)
		wait.Go(func() {
			_ = sleep(ctx, late)
			s, earlier, err := u.device(ctx, o.id, reloads)
			mu.Lock()
			defer mu.Unlock()
			o.devices, o.earlier = append(o.devices, s), append(o.earlier, earlier...)
			if err != nil {
				failed = err
			}
		})
	}
	if o.typ == "count" {
		for i := range u.Rand.IntN(4) {
			at, message := u.someTime(2*time.Second), fmt.Sprint(i)
			wait.Go(func() {
				_ = sleep(ctx, at)
				f := u.steer(ctx, o.id, i)
				u.Report.saw(string(f))
				mu.Lock()
				defer mu.Unlock()
				o.messages[message] = f
			})
		}
	}
	if u.Rand.IntN(3) == 0 {
		o.stop = true
		at := u.someTime(2 * time.Second)
		wait.Go(func() {
			_ = sleep(ctx, at)
			if end := u.stop(ctx, o.id); end != "" {
				u.Report.saw("stops answered")
				mu.Lock()
				defer mu.Unlock()
				o.stopped = append(o.stopped, end)
			}
		})
	}
	wait.Wait()
	return failed
}

func (u *User) someTime(most time.Duration) time.Duration {
	return time.Duration(u.Rand.Int64N(int64(most)))
}

// device watches a run to its end, by a client that is closed so many times for another one, and returns what the last
// one has seen, and the texts of the others.
func (u *User) device(ctx context.Context, id string, reloads int) (last seen, earlier []string, err error) {
	for {
		left := -1
		if reloads > 0 {
			left = 1 + rand.IntN(8)
		}
		last, err = u.watch(ctx, id, left)
		switch {
		case last.end != "" || errors.CodeOf(err) == errors.NotFound:
			return last, earlier, nil
		case ctx.Err() != nil:
			return last, earlier, err
		case err == nil:
			earlier = append(earlier, last.text)
			reloads--
		}
		_ = sleep(ctx, step)
	}
}

// watch watches a run to its end, or to some pieces of text if left is not negative.
func (u *User) watch(ctx context.Context, id string, left int) (s seen, err error) {
	c, err := u.Dial(ctx)
	if err != nil {
		return s, err
	}
	defer c.Close(ctx)
	for p, err := range runs.Attach(c, id).Pieces(ctx) {
		if err != nil {
			return s, err
		}
		if p.Reset {
			u.Report.saw("texts that began anew")
			s.text = ""
		}
		s.text += p.Text
		if p.End != nil {
			s.end, s.result = named(*p.End), string(p.End.Result)
		} else if left--; left == 0 {
			return s, nil
		}
	}
	return s, nil
}

// steer gives a run a message.
func (u *User) steer(ctx context.Context, id string, message int) fate {
	c, err := u.Dial(ctx)
	if err != nil {
		return unknown
	}
	defer c.Close(ctx)
	switch ok, err := runs.Attach(c, id).Steer(ctx, message); {
	case err != nil:
		u.refused(ctx, "a message", id, err)
		return unknown
	case ok:
		return taken
	}
	return refused
}

// stop stops a run, and returns how it has ended, or nothing if there was no answer.
func (u *User) stop(ctx context.Context, id string) (end string) {
	c, err := u.Dial(ctx)
	if err != nil {
		return ""
	}
	defer c.Close(ctx)
	e, err := runs.Attach(c, id).Stop(ctx)
	if err != nil {
		u.refused(ctx, "a stop", id, err)
		return ""
	}
	return named(e)
}

// named is how a run has ended, for clients and in answers to a stop.
func named(e runs.End) string { return strings.TrimSpace(e.State + " " + string(e.Code)) }

// refused notes why a request about a run has failed.
func (u *User) refused(ctx context.Context, what, id string, err error) {
	if ctx.Err() != nil {
		u.Report.violated(fmt.Sprintf("%s of run %s has no answer", what, id))
		return
	}
	u.failed(what, err)
}

// failed notes that a request has failed: with a code that says why.
func (u *User) failed(what string, err error) {
	code := errors.CodeOf(err)
	u.Report.saw(what + " has failed: " + string(code))
	if code == errors.Internal {
		u.Report.violated(fmt.Sprintf("%s has failed: %v", what, err))
	}
}

// attachLater returns what three more clients see of a run that has ended.
func (u *User) attachLater(ctx context.Context, id string) (all []seen, err error) {
	for len(all) < 3 {
		s, err := u.watch(ctx, id, -1)
		switch {
		case err == nil || errors.CodeOf(err) == errors.NotFound:
			all = append(all, s)
		case ctx.Err() != nil:
			return nil, err
		}
	}
	return all, nil
}
