package clienttest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// door is the gate of all servers: what [Server.Refuse] and [Server.Door] ask for.
type door struct {
	bans *bans

	mu     sync.Mutex
	store  store
	o      DoorOptions
	gate   *gate.Gate
	refuse RefuseOptions
}

// DoorOptions are those of [Server.Door].
type DoorOptions struct {
	MaxPerUser int `json:"maxPerUser"` // connections of a user at a time; default: no limit
	Opens      int `json:"opens"`      // connections of a token at once; default: 1000
	PerMs      int `json:"perMs"`      // the time after which all of them are possible again; default: 1 s
}

// RefuseOptions are those of [Server.Refuse].
type RefuseOptions struct {
	// Code is that of the refusal: UNAUTHENTICATED (401), PERMISSION_DENIED (403), RESOURCE_EXHAUSTED (429)
	// or, by default, UNAVAILABLE (503).
	Code         string `json:"code"`
	RetryAfterMs int    `json:"retryAfterMs"` // 0: not known
	Times        int    `json:"times"`        // default: until Resume
	TCP          bool   `json:"tcp"`          // the connection is reset before a handshake
}

// over has the gate count in a store.
func (d *door) over(s store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.store != s {
		d.store = s
		d.build()
	}
}

// build makes the gate. The door is locked.
func (d *door) build() {
	opens := limit.TokenBucket{
		Capacity: int64(cmp.Or(d.o.Opens, 1000)), Refill: int64(cmp.Or(d.o.Opens, 1000)),
		Per: milliseconds(cmp.Or(d.o.PerMs, 1000)),
	}
	d.gate = gate.New(d.store, gate.Options{
		PerIdentity: opens, PerIP: limit.TokenBucket{Capacity: 100_000, Refill: 100_000, Per: time.Second},
		MaxPerUser: cmp.Or(d.o.MaxPerUser, -1), MaxPerIP: -1, MaxTotal: -1,
		RetryAfter: 500 * time.Millisecond,
		Banned:     d.bans.left,
		OnRefused:  func(gate.Refusal) {},
		Limiter:    limit.Options{Name: fmt.Sprintf("door-%d-%d-%d", d.o.MaxPerUser, d.o.Opens, d.o.PerMs)},
	})
}

// Admit implements ingress.Gate.
func (d *door) Admit(r *http.Request, ip netip.Addr) (ingress.Admission, error) {
	d.mu.Lock()
	gate, err := d.gate, d.refusal()
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return gate.Admit(r, ip)
}

func (d *door) refusal() error {
	if d.refuse.Times == 0 || d.refuse.TCP {
		return nil
	}
	d.refuse.Times--
	return errors.Code(cmp.Or(d.refuse.Code, string(errors.Unavailable))).New("as asked").
		WithRetryAfter(milliseconds(d.refuse.RetryAfterMs))
}

// Door limits connections.
func (s *Server) Door(o DoorOptions) error {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	s.door.o = o
	s.door.build()
	return nil
}

// Refuse refuses the next handshakes.
func (s *Server) Refuse(o RefuseOptions) error {
	o.Times = cmp.Or(o.Times, -1)
	if o.TCP {
		s.proxy.refuse(o.Times)
		return nil
	}
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	s.door.refuse = o
	return nil
}

// bans has the times until which users are banned, in milliseconds of the record.
type bans struct {
	record *record

	mu    sync.Mutex
	until map[string]float64 // "": all
}

// BanOptions are those of [Server.Ban].
type BanOptions struct {
	Ms   int    `json:"ms"`   // default: 1 s
	User string `json:"user"` // default: all
}

// Ban bans a user as ratelimit.Bans does.
func (s *Server) Ban(o BanOptions) error {
	ms := float64(cmp.Or(o.Ms, 1000))
	s.bans.mu.Lock()
	if s.bans.until == nil {
		s.bans.until = map[string]float64{}
	}
	s.bans.until[o.User] = s.record.now() + ms
	s.bans.mu.Unlock()
	return s.Close(CloseOptions{Code: int(errors.CloseTooManyRequests), Reason: retryReason(&ms), User: o.User})
}

func (b *bans) left(_ context.Context, _ netip.Addr, id ingress.Identity) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := max(b.until[""], b.until[id.User]) - b.record.now()
	return time.Duration(max(0, left) * float64(time.Millisecond)), nil
}

// KickOptions are those of [Server.Kick].
type KickOptions struct {
	User string `json:"user"`
}

// Kick closes connections with 1008.
func (s *Server) Kick(o KickOptions) error {
	return s.Close(CloseOptions{Code: int(errors.ClosePolicy), Reason: "kicked", User: o.User})
}

// CloseOptions are those of [Server.Close].
type CloseOptions struct {
	Code   int    `json:"code"` // default: 1000
	Reason string `json:"reason"`
	User   string `json:"user"` // default: all
}

// awaitOpened waits for connections that clients have already and the server does not know yet.
func (s *Server) awaitOpened() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for s.opening.Load() > 0 && pause(time.Millisecond, ctx.Done()) {
		continue
	}
}

// Close closes connections. A code that a server may not send needs [Server.Raw].
func (s *Server) Close(o CloseOptions) error {
	code := errors.CloseCode(cmp.Or(o.Code, 1000))
	if !code.Valid() {
		return fmt.Errorf("a server may not send the close code %d", o.Code)
	}
	s.awaitOpened()
	for _, i := range s.instances() {
		for _, c := range i.of(o.User) {
			c.Close(code, o.Reason)
		}
	}
	return nil
}

// retryReason is the reason of a close frame; nil: waiting does not help.
func retryReason(ms *float64) string {
	if ms == nil {
		return `{"retryAfterMs":null}`
	}
	return fmt.Sprintf(`{"retryAfterMs":%v}`, *ms)
}

// FloodLimit is the limit of the messages "limited" and "limited.note".
type FloodLimit struct {
	Capacity int `json:"capacity"` // default: 10
	Refill   int `json:"refill"`   // in perMs; default: 10
	PerMs    int `json:"perMs"`    // default: 1 s
}

type floodLimit struct {
	mu    sync.Mutex
	store store
	o     FloodLimit
	limit atomic.Pointer[ingress.Middleware]
}

func (f *floodLimit) set(o FloodLimit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.o = FloodLimit{cmp.Or(o.Capacity, 10), cmp.Or(o.Refill, 10), cmp.Or(o.PerMs, 1000)}
	f.build()
}

func (f *floodLimit) over(s store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store != s {
		f.store = s
		f.build()
	}
}

func (f *floodLimit) build() {
	if f.store == nil {
		return
	}
	policy := limit.TokenBucket{Capacity: int64(f.o.Capacity), Refill: int64(f.o.Refill), Per: milliseconds(f.o.PerMs)}
	m := ratelimit.New(limit.New(f.store, policy, limit.Options{Name: fmt.Sprintf("flood-%d-%d-%d", f.o.Capacity, f.o.Refill, f.o.PerMs)}), ratelimit.PerUserOrIP, ratelimit.Options{Announce: "flood"})
	f.limit.Store(&m)
}

func (f *floodLimit) middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error { return (*f.limit.Load())(next)(c) }
}

// FloodLimit limits the messages "limited" and "limited.note" of a user.
func (s *Server) FloodLimit(o FloodLimit) error {
	s.flood.set(o)
	return nil
}
