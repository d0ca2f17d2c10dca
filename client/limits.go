package client

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// limitsAskEvery is the shortest time between two requests for limits, see PROTOCOL.md.
const limitsAskEvery = time.Second

// Limits is what is left of the limits of a client, before it is refused. [FollowLimits] makes it. Its
// methods may be called from any goroutine.
type Limits struct {
	c     *Client
	types jsontext.Value

	// Guarded by Client.mu.
	stopped bool
	asking  bool           // a request is under way: what comes before its answer belongs to an earlier one
	sent    map[string]int // messages by type, on all connections
	before  map[string]int // of these, before the request
	last    limitsFrame
	at      time.Time // when that came
}

// limitsFrame is the payload of $ws:limits.
type limitsFrame struct {
	Limits []announcedLimit `json:"limits"`
	Seen   map[string]int   `json:"seen"`
}

type announcedLimit struct {
	Name      string              `json:"name"`
	Types     map[string]*float64 `json:"types"` // the cost of a message; nil: it depends on the message
	Limit     float64             `json:"limit"`
	Remaining float64             `json:"remaining"`
	FullInMs  float64             `json:"fullInMs"`
	Refill    float64             `json:"refill"`
	PerMs     float64             `json:"perMs"`
}

// FollowLimits follows the limits for messages of some types, on this connection and all later ones. The
// server has to announce them (ratelimit.Options.Announce); of others nothing is known. A client follows its
// limits once: a second call ends the Limits of the first. If the server refuses, and repeating would not
// change that, Options.OnError gets its error.
func FollowLimits(c *Client, types ...string) *Limits {
	list, _ := json.Marshal(map[string][]string{"types": append([]string{}, types...)}, jsontext.AllowInvalidUTF8(true)) // strings
	f := &Limits{c: c, types: list, sent: make(map[string]int)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits != nil {
		c.limits.stopped = true
	}
	c.limits = f
	if c.link != nil {
		f.ask(c.link)
	}
	return f
}

// Stop ends what [FollowLimits] began: f then has no limits.
func (f *Limits) Stop() {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits != f {
		return
	}
	f.stopped, c.limits = true, nil
	if c.link != nil {
		c.link.push(outgoing{Type: typeLimits, Meta: outgoingMeta{CorrelationID: c.newID()}, Payload: jsontext.Value(`{"types":[]}`)})
	}
}

// Left returns what is left now of the limit with a name, with the part of a unit that has come back. ok is
// false if it is not known.
func (f *Limits) Left(name string) (left float64, ok bool) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for i := range f.last.Limits {
		if l := &f.last.Limits[i]; l.Name == name {
			return f.left(l), true
		}
	}
	return 0, false
}

// Fits returns how many messages of a type fit now. ok is false if no limit of the type is known.
func (f *Limits) Fits(typ string) (n int, ok bool) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for i := range f.last.Limits {
		if l := &f.last.Limits[i]; l.has(typ) {
			if fits := int(f.left(l) / l.cost(typ)); !ok || fits < n {
				n, ok = fits, true
			}
		}
	}
	return n, ok
}

// Wait waits until a message of the type fits, or until ctx ends and then returns its error. It does not
// wait if that is not known, or for a limit that does not refill steadily. A goroutine that calls it before each
// message is not refused, as long as it alone uses the limit; MessageOptions.WaitOnLimit is for the case that
// others do, too.
func (f *Limits) Wait(ctx context.Context, typ string) error {
	for {
		wait := f.wait(typ)
		if wait <= 0 {
			return ctx.Err()
		}
		if !sleep(ctx, min(wait, time.Second)) {
			return ctx.Err()
		}
	}
}

func (f *Limits) wait(typ string) (wait time.Duration) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for i := range f.last.Limits {
		l := &f.last.Limits[i]
		if f.stopped || !l.has(typ) || l.Refill <= 0 {
			continue
		}
		ms := (min(l.cost(typ), l.Limit) - f.left(l)) * l.PerMs / l.Refill
		wait = max(wait, time.Duration(min(ms, 1000)*float64(time.Millisecond)))
	}
	return wait
}

func (l *announcedLimit) has(typ string) bool { _, ok := l.Types[typ]; return ok }

// cost is what a message costs, 1 if that is not known.
func (l *announcedLimit) cost(typ string) float64 {
	if cost := l.Types[typ]; cost != nil && *cost > 0 {
		return *cost
	}
	return 1
}

// left is what is left of a limit, without what the server has not counted yet. c.mu is held.
func (f *Limits) left(l *announcedLimit) float64 {
	ms := float64(time.Since(f.at)) / float64(time.Millisecond)
	left := l.Remaining
	switch {
	case ms >= l.FullInMs:
		left = l.Limit
	case l.Refill > 0 && l.PerMs > 0:
		left = min(l.Limit, left+ms*l.Refill/l.PerMs)
	}
	for typ := range l.Types {
		left -= l.cost(typ) * float64(max(0, f.sent[typ]-f.before[typ]-f.last.Seen[typ]))
	}
	return max(0, min(left, math.MaxInt32))
}

// ask asks for the limits. c.mu is held. The request is written before all messages that are not counted in sent.
func (f *Limits) ask(l *link) {
	f.asking = true
	before := maps.Clone(f.sent)
	id := f.c.newID()
	l.asked[id] = func(answer *frame) {
		if f.stopped {
			return
		}
		f.asking = false
		if answer.Type == typeRPCError {
			_, err := readFailure(answer.Payload)
			f.again(l, err)
			return
		}
		f.before = before
		_ = f.update(answer.Payload)
	}
	l.push(outgoing{Type: typeLimits, Meta: outgoingMeta{CorrelationID: id}, Payload: f.types})
}

// again repeats the request after a refusal, if that helps.
func (f *Limits) again(l *link, err *errors.Error) {
	if !err.Retryable() {
		f.c.inbox.add(delivery{call: func(context.Context) { f.c.opts.OnError(typeLimits, err) }})
		return
	}
	time.AfterFunc(max(limitsAskEvery, err.RetryAfter), func() {
		f.c.mu.Lock()
		defer f.c.mu.Unlock()
		if f.c.link == l && !f.stopped {
			f.ask(l)
		}
	})
}

// update takes a state. c.mu is held.
func (f *Limits) update(payload jsontext.Value) error {
	var next limitsFrame
	if err := json.Unmarshal(payload, &next); err != nil {
		return err
	}
	f.last, f.at = next, time.Now()
	return nil
}

// limitsFrame takes a state that the server has sent by itself.
func (l *link) limitsFrame(f *frame, data []byte) error {
	c := l.c
	c.mu.Lock()
	var err error
	if c.limits != nil && !c.limits.asking {
		err = c.limits.update(f.Payload)
	}
	c.mu.Unlock()
	if err != nil {
		return l.malformed(f.Type, data)
	}
	return nil
}
