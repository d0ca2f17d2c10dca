package ratelimit

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// BanOptions say how often is too often. The zero value is ready to use over a
// store in this process; over a shared one, Limiter.Name must be set.
type BanOptions struct {
	// After is the number of rejections Within a time that leads to a ban; 0 means
	// 50.
	After int

	// Within is the time in which rejections are counted; 0 means a minute. They are
	// counted by a [limit.SlidingWindow] of one sub-window, whose bounds apply.
	Within time.Duration

	// Ban is how long a ban lasts, by the rules for [limit.TokenBucket].Per; 0 means 5
	// minutes. Rejections before the ban still count after it for as long as Within:
	// a ban that is shorter may come again with the next rejection.
	Ban time.Duration

	// Recheck is how long a process believes what the store said of a subject
	// before it asks again; 0 means 5 s. A ban holds at once in the process that
	// made it and for every new connection, and reaches the open connections of
	// other processes within this time.
	Recheck time.Duration

	// Key says who is banned; nil means [PerUserOrIP]: clients that are not
	// authenticated are banned with all others of their address. Behind a proxy that
	// is the proxy's, and with it everybody, unless the router's Options.ClientIP finds
	// the client's. It may use only the Identity and the IP.
	Key KeyFunc

	// CloseCode closes the connection; 0 means 4429.
	CloseCode errors.CloseCode

	// Limiter are the options of the two limiters that count rejections and keep bans,
	// whose names are Limiter.Name with "/rejections" and "/bans". Shadow is not
	// available: leave the middleware out instead.
	Limiter limit.Options
}

// Bans ban clients that are rejected too often: the connection is closed with 4429 and
// the reason {"retryAfterMs":n}, and for as long as the ban lasts, so is every
// connection of the same subject with its first frame.
//
//	bans := ratelimit.NewBans(store, ratelimit.BanOptions{})
//	r.UseIngress(bans.Middleware, ratelimit.New(limiter, ratelimit.Options{}))
//
// Rejection counts and bans are limits themselves, over any store that can Peek, and hold in
// all processes that share it. A subject costs the store one operation for each of
// its first After rejections and, in each process, one or two for the ban and then one
// question in every Recheck, however many frames it sends on however many connections
// (while the store answers the first, others may be under way). A connection that
// behaves costs one question in Recheck.
//
// A store in this process that is full of keys has new ones share states: there a ban
// may meet another subject as well, and Unban does not end it. The more states there
// are, the rarer that is (memory.Options.MaxKeys). Give Bans a memory store of their
// own if clients can fill the one that limits use, by their number or with subjects of
// their choosing.
//
// While the store fails, Limiter.OnFailure decides. A rejection that cannot
// be counted is a rejection all the same.
//
// All methods may be used by any number of goroutines.
type Bans struct {
	key              KeyFunc
	after            int64
	recheck          time.Duration
	code             errors.CloseCode
	rejections, bans *limit.Limiter
	start            time.Time
	known            banCache
	cleared          *ingress.Key[*atomic.Int64] // when a connection was found not banned
}

// NewBans makes Bans over a store. It panics when an option is invalid or the
// store cannot Peek.
func NewBans(store limit.Store, o BanOptions) *Bans {
	o = o.withDefaults(store)
	b := &Bans{key: o.Key, after: int64(o.After), recheck: o.Recheck, code: o.CloseCode, start: time.Now()}
	b.rejections = limit.New(store, o.rejectionPolicy(), named(o.Limiter, "/rejections"))
	b.bans = limit.New(store, o.banPolicy(), named(o.Limiter, "/bans"))
	b.known.lasts = o.Recheck
	b.cleared = ingress.NewKey[*atomic.Int64]()
	return b
}

func (o BanOptions) withDefaults(store limit.Store) BanOptions {
	if _, ok := store.(limit.Peeker); !ok {
		panic("ratelimit: NewBans over a store that is nil or cannot Peek: whether somebody is banned has to be asked without charging")
	}
	mustBeNamed("NewBans", "BanOptions", store, o.Limiter)
	if o.After == 0 {
		o.After = 50
	}
	if o.Within == 0 {
		o.Within = time.Minute
	}
	if o.Ban == 0 {
		o.Ban = 5 * time.Minute
	}
	if o.Recheck == 0 {
		o.Recheck = 5 * time.Second
	}
	if o.Key == nil {
		o.Key = PerUserOrIP
	}
	if o.CloseCode == 0 {
		o.CloseCode = errors.CloseTooManyRequests
	}
	switch {
	case o.Recheck < 0:
		panic(fmt.Sprintf("ratelimit: BanOptions.Recheck is %v; it must be positive (0 for 5 s)", o.Recheck))
	case !o.CloseCode.Valid():
		panic(fmt.Sprintf("ratelimit: BanOptions.CloseCode %d may not be sent; use 4429 or another code from 4000 to 4999", o.CloseCode))
	case o.Limiter.Shadow:
		panic("ratelimit: BanOptions.Limiter.Shadow is set; bans cannot be tried in shadow: leave the middleware out")
	}
	if _, err := limit.Compile(o.rejectionPolicy()); err != nil {
		panic("ratelimit: BanOptions.After and Within: " + err.Error())
	}
	if _, err := limit.Compile(o.banPolicy()); err != nil {
		panic("ratelimit: BanOptions.Ban: " + err.Error())
	}
	return o
}

// mustBeNamed panics when a constructor lacks the name that its limiters need, with
// the option to set.
func mustBeNamed(constructor, options string, store limit.Store, o limit.Options) {
	if _, local := store.(limit.LocalStore); store != nil && !local && o.Name == "" {
		panic(fmt.Sprintf("ratelimit: %s over a shared store needs a name for its keys: set %s.Limiter to limit.Options{Name: \"chat\"}", constructor, options))
	}
}

func (o BanOptions) rejectionPolicy() limit.Policy {
	return limit.Named("rejections", limit.SlidingWindow{Limit: int64(o.After), Window: o.Within})
}

// banPolicy is a bucket whose only token is taken by a ban and comes back at its end.
func (o BanOptions) banPolicy() limit.Policy {
	return limit.Named("ban", limit.TokenBucket{Capacity: 1, Refill: 1, Per: o.Ban})
}

func named(o limit.Options, suffix string) limit.Options {
	if o.Name != "" {
		o.Name += suffix
	}
	return o
}

// Middleware turns the frames of banned clients away, and counts every
// *errors.LimitExceeded that the middleware behind it returns: use it before the
// limits. Of those it counts the rejection that leads to a ban closes the connection;
// the router's hook OnLimitExceeded is told of it as of any other, with Close set.
func (b *Bans) Middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		banned, err := b.look(c)
		if err != nil {
			return err
		}
		if banned > 0 {
			return c.Reject(b.ban(errors.LimitExceeded{
				Kind: errors.LimitBanned, Observed: b.after, Limit: b.after,
				Limiter: b.bans.Name(), Policy: b.bans.Plan().String(),
			}, banned))
		}
		err = next(c)
		if l := rejected(err); l != nil {
			if banned := b.countRejection(c.Context(), c); banned > 0 {
				return c.Reject(b.ban(*l, banned))
			}
		}
		return err
	}
}

// Count counts err if it is a rejection, and returns err: as a rejection that
// closes the connection, if that was one too many. It is for the rejections that do
// not come by [Bans.Middleware], such as those of handlers:
//
//	r.Use(func(next router.Handler) router.Handler {
//		return func(c *router.Context) error { return bans.Count(c, c.IP(), *c.Identity, next(c)) }
//	})
//
// A rejection counts as often as it is counted: do not count one twice. Those that the
// router makes itself, of frames that are too large and of too many requests in flight,
// are counted by its hook, and a ban then meets the client's next frame:
//
//	OnLimitExceeded: func(ctx context.Context, i router.LimitInfo) {
//		if i.Kind == errors.LimitPayload || i.Kind == errors.LimitInFlight {
//			_ = bans.Count(ctx, i.IP, i.Identity, &i.LimitExceeded)
//		}
//	},
func (b *Bans) Count(ctx context.Context, ip netip.Addr, id ingress.Identity, err error) error {
	l := rejected(err)
	if l == nil {
		return err
	}
	// A client that takes its request back does not undo the count.
	banned := b.countRejection(context.WithoutCancel(ctx), &ingress.Context{IP: ip, Identity: id})
	if banned <= 0 {
		return err
	}
	e := b.ban(*l, banned)
	return &e
}

// Banned says how long the client with this address and identity is still banned; 0
// means it is not. It is for the connection gate, which can turn a client away before
// there is a connection, and is answered without the store for Recheck. An error
// (UNAVAILABLE under limit.FailClosed) leaves it open.
func (b *Bans) Banned(ctx context.Context, ip netip.Addr, id ingress.Identity) (time.Duration, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	return b.ask(ctx, b.subject(b.bans, &ingress.Context{IP: ip, Identity: id}, buf), b.now())
}

// Unban ends the ban of the client with this address and identity and forgets its
// rejections: in this process as soon as Unban returns, whatever was being asked meanwhile,
// and in others within Recheck. The error is errors.ErrUnsupported if the store has no
// Reset, or the store's.
func (b *Bans) Unban(ctx context.Context, ip netip.Addr, id ingress.Identity) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	other := buffers.Get().(*[]byte)
	defer buffers.Put(other)
	c := &ingress.Context{IP: ip, Identity: id}
	key := b.subject(b.bans, c, buf)
	return b.known.unban(key.Bytes(), func() error {
		if err := b.rejections.ResetKey(ctx, b.subject(b.rejections, c, other)); err != nil {
			return err
		}
		return b.bans.ResetKey(ctx, key)
	})
}

// rejected is the rejection by a limit in an error, or nil.
func rejected(err error) *errors.LimitExceeded {
	if l, ok := err.(*errors.LimitExceeded); ok || err == nil {
		return l
	}
	l, _ := errors.AsType[*errors.LimitExceeded](err)
	return l
}

// ban makes a rejection one that closes the connection.
func (b *Bans) ban(l errors.LimitExceeded, banned time.Duration) errors.LimitExceeded {
	l.Close, l.RetryAfter, l.Never = b.code, banned, false
	return l
}

func (b *Bans) now() time.Duration { return time.Since(b.start) }
