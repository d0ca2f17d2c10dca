package router

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/life"
)

// Bounds of $ws:limits, see PROTOCOL.md.
const (
	// maxWatchedTypes is the number of types for which a client may follow its limits.
	maxWatchedTypes = 16
	// maxWatchedLimits is the number of limits, counted for each type separately.
	maxWatchedLimits = 64
	// limitsEvery is the shortest time between two frames, limitsRefusedEvery if a message was
	// refused meanwhile, and limitsFirst the time in which messages are collected for the first one.
	limitsEvery        = 250 * time.Millisecond
	limitsRefusedEvery = time.Second
	limitsFirst        = 20 * time.Millisecond
	// limitsFlood is the number of messages refused within limitsRefusedEvery at which no frame is sent.
	limitsFlood = 50
	// limitsBacklog is the number of bytes that wait for the client at which no frame is sent.
	limitsBacklog = 16 << 10
	// limitsAskEvery is the shortest time between two requests of a connection.
	limitsAskEvery = time.Second
)

var errWatchedTypes = errors.InvalidArgument.Errorf("payload.types must be a list of at most %d message types", maxWatchedTypes)

// limitWatch has the limits that the client of a connection follows. The reader changes it, a timer
// sends what has changed.
type limitWatch struct {
	conn  *Conn
	types []string
	asked time.Time

	mu      sync.Mutex
	seen    []int64 // messages, by the index of the type
	limits  []watchedLimit
	refused int  // messages since the last frame
	pending bool // the timer runs
	ended   bool // another watch has replaced this one, or the connection has ended
	sent    time.Time
}

// watchedLimit is the state of a limit at an instant.
type watchedLimit struct {
	inbound.Limit
	at time.Time
}

// watchLimits answers $ws:limits.
func (c *Conn) watchLimits(s *scratch, env envelope.Envelope, _ []byte) (RefusedKind, error) {
	w, kind, err := c.newLimitWatch(s, env.Payload)
	if err != nil {
		return kind, err
	}
	if c.limits != nil {
		c.limits.end()
	}
	c.limits = w
	s.in.State.Limits = w.reports()
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeLimits + `","meta":{"correlationId":`)
	b.Write(env.CorrelationID)
	b.WriteString(`},"payload":`)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.encode(b, time.Now())
	c.answer(b.Bytes())
	return "", nil
}

// newLimitWatch reads a request, and calls the middleware for the limits. The kind is that of an error.
func (c *Conn) newLimitWatch(s *scratch, payload []byte) (*limitWatch, RefusedKind, error) {
	var q struct {
		Types []string `json:"types"`
	}
	now := time.Now()
	if err := c.checkState(s); err != nil {
		return nil, RefusedDraining, err
	}
	if json.Unmarshal(payload, &q) != nil || len(q.Types) > maxWatchedTypes {
		return nil, RefusedPayload, errWatchedTypes
	}
	if c.limits != nil {
		if wait := limitsAskEvery - now.Sub(c.limits.asked); wait > 0 {
			return nil, "", &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: wait}
		}
	}
	slices.Sort(q.Types)
	unknown := func(typ string) bool { return c.serving.routes[typ] == nil }
	w := &limitWatch{conn: c, types: slices.DeleteFunc(slices.Compact(q.Types), unknown), asked: now}
	w.seen = make([]int64, len(w.types))
	s.in.State.Limits, s.in.Peek = w, true
	defer func() { s.in.State.Limits, s.in.Peek = c.limits.reports(), false }()
	for _, typ := range w.types {
		f := incoming{route: c.serving.routes[typ], env: envelope.Envelope{Type: []byte(typ)}, complete: true}
		if err := c.askMiddleware(s, &f); err != nil {
			return nil, RefusedMiddleware, err
		}
	}
	return w, "", nil
}

// reports returns w for the middleware, nil if the client follows no limits.
func (w *limitWatch) reports() inbound.Limits {
	if w == nil || len(w.types) == 0 {
		return nil
	}
	return w
}

// Report implements inbound.Limits.
func (w *limitWatch) Report(l inbound.Limit) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	own := -1
	for i := range w.limits {
		k := &w.limits[i]
		switch {
		case k.Source != l.Source:
		case k.Type == l.Type:
			own = i
		case l.Key != nil && bytes.Equal(k.Key, l.Key): // the same state, for messages of another type
			k.update(&l, now)
		}
	}
	switch {
	case l.Hidden && own >= 0:
		w.limits = slices.Delete(w.limits, own, own+1)
	case l.Hidden:
	case own >= 0:
		k := &w.limits[own]
		k.Key, k.Cost = append(k.Key[:0], l.Key...), l.Cost
		k.update(&l, now)
	case len(w.limits) < maxWatchedLimits && slices.Contains(w.types, l.Type):
		k := watchedLimit{Limit: l}
		k.Key = append([]byte{}, l.Key...)
		k.update(&l, now)
		w.limits = append(w.limits, k)
	}
	if w.conn.limits == w { // and not asked for just now
		w.schedule(now)
	}
}

func (k *watchedLimit) update(l *inbound.Limit, now time.Time) {
	k.Ceiling, k.Remaining, k.FullAfter, k.Refill, k.Per, k.at = l.Ceiling, l.Remaining, l.FullAfter, l.Refill, l.Per, now
}

// passed notes that the middleware has decided on a message.
func (w *limitWatch) passed(sent []byte, err error) {
	if len(w.types) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if rejection(err) != nil {
		w.refused++
	}
	for i, typ := range w.types {
		if typ == string(sent) {
			w.seen[i]++
			w.schedule(time.Now())
		}
	}
}

// schedule has a frame sent. w.mu is held.
func (w *limitWatch) schedule(now time.Time) {
	if w.pending || w.ended {
		return
	}
	w.pending = true
	time.AfterFunc(max(limitsFirst, limitsEvery-now.Sub(w.sent)), w.send)
}

// send sends what is left of the limits, unless it is too early.
func (w *limitWatch) send() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if w.conn.life.State() >= life.Closing {
		w.ended = true
		return
	}
	now := time.Now()
	if wait := w.wait(now); wait > 0 {
		time.AfterFunc(wait, w.send)
		return
	}
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeLimits + `","payload":`)
	w.encode(b, now)
	w.pending, w.refused, w.sent = false, 0, now
	_ = w.conn.sendNow(b) // or the connection is being closed
}

// wait is the time for which no frame is sent. w.mu is held.
func (w *limitWatch) wait(now time.Time) time.Duration {
	switch {
	case w.refused >= limitsFlood:
		w.refused = 1
		return limitsRefusedEvery
	case w.conn.Queued() > limitsBacklog:
		return limitsRefusedEvery
	case w.refused > 0:
		return limitsRefusedEvery - now.Sub(w.sent)
	}
	return 0
}

// end has nothing sent any more.
func (w *limitWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// encode appends the payload of $ws:limits and the end of the frame. w.mu is held.
func (w *limitWatch) encode(b *frame.Buffer, now time.Time) {
	b.WriteString(`{"limits":[`)
	for i := range w.limits {
		k := &w.limits[i]
		if w.first(k) < i {
			continue // written with the first one of this state
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":`)
		b.Text(k.Name)
		b.WriteString(`,"types":{`)
		for j := range w.limits[i:] {
			if of := &w.limits[i+j]; k.same(of) {
				if j > 0 {
					b.WriteByte(',')
				}
				b.Text(of.Type)
				b.WriteByte(':')
				if of.Cost > 0 {
					b.Int(of.Cost)
				} else {
					b.WriteString("null")
				}
			}
		}
		k.encode(b, now)
	}
	b.WriteString(`],"seen":{`)
	for i, typ := range w.types {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Text(typ)
		b.WriteByte(':')
		b.Int(w.seen[i])
	}
	b.WriteString("}}}")
}

// first returns the index of the first limit of a state. w.mu is held.
func (w *limitWatch) first(of *watchedLimit) int {
	for i := range w.limits {
		if w.limits[i].same(of) {
			return i
		}
	}
	return len(w.limits)
}

// same reports whether two limits are one state.
func (k *watchedLimit) same(other *watchedLimit) bool {
	return k.Source == other.Source && bytes.Equal(k.Key, other.Key)
}

// encode appends what is left of a limit now. Amounts are rounded down, times up.
func (k *watchedLimit) encode(b *frame.Buffer, now time.Time) {
	elapsed := now.Sub(k.at)
	full := max(0, k.FullAfter-elapsed)
	left := k.Remaining
	if k.Refill > 0 {
		left += float64(elapsed) * float64(k.Refill) / float64(k.Per)
	}
	if full == 0 {
		left = float64(k.Ceiling)
	}
	left = float64(int64(min(left, float64(k.Ceiling))*1e6)) / 1e6
	b.WriteString(`},"limit":`)
	b.Int(k.Ceiling)
	b.WriteString(`,"remaining":`)
	b.Write(strconv.AppendFloat(b.AvailableBuffer(), left, 'f', -1, 64))
	b.WriteString(`,"fullInMs":`)
	b.Int(ceil.Div(full, time.Millisecond))
	if k.Refill > 0 {
		b.WriteString(`,"refill":`)
		b.Int(k.Refill)
		b.WriteString(`,"perMs":`)
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), float64(k.Per)/float64(time.Millisecond), 'f', -1, 64))
	}
	b.WriteByte('}')
}
