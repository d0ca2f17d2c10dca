package ratelimit

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/limitname"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// BanOptions configure [Bans]. The zero value is ready to use over a store in this process; over
// a shared store, Limiter.Name must be set.
type BanOptions struct {
	// After is the number of rejections that leads to a ban.
	//
	// Default: 50.
	After int

	// Within is the time within which rejections are counted. They are counted by a [limit.SlidingWindow] of one
	// sub-window, whose bounds apply.
	//
	// Default: a minute.
	Within time.Duration

	// Ban is the duration of a ban, from 1 ms to 10 years. Rejections count for Within, also after
	// a ban: if the ban is shorter, the next rejection may lead to another one.
	//
	// Default: 5 minutes.
	Ban time.Duration

	// Recheck is how long a process caches the answer of the store for a subject. A ban applies at once in the process
	// that made it and to every new connection, and to open connections of other processes within this time.
	//
	// Default: 5 s.
	Recheck time.Duration

	// Key is the subject of a ban. Behind a proxy, set Options.ClientIP of the router: with the address of the proxy,
	// one ban would apply to all clients. Key may use only the Identity and the IP.
	//
	// Default: [PerUserOrIP]: clients that are not authenticated are banned by tenant and address.
	Key KeyFunc

	// CloseCode is the code with which banned connections are closed.
	//
	// Default: 4429.
	CloseCode errors.CloseCode

	// Limiter has the options of the two limiters that count rejections and store bans.
	// Their names are Limiter.Name followed by "/rejections" and "/bans". Shadow must not
	// be set: leave the middleware out instead.
	//
	// Default: see [limit.Options].
	Limiter limit.Options
}

// Bans ban clients that are rejected too often: the connection is closed with 4429 and the
// reason {"retryAfterMs":n}. During the ban, every connection of the same subject is closed in
// this way at its first frame.
//
//	bans := ratelimit.NewBans(store)
//	r.Use(bans.Middleware, ratelimit.New(limiter, ratelimit.PerUserOrIP))
//
// Counts and bans are limits themselves, over any [limit.ExtendedStore], and apply in all processes
// that share the store. A subject costs one operation of the store for each of its first After
// rejections and, in each process, two or three for the ban and then one in every Recheck, for
// any number of frames and connections. (Until the first answer of the store, there may be
// more.) A connection without rejections costs one operation in every Recheck.
//
// In a memory store that is full, new keys share states. Then a ban may apply to a second subject,
// and Unban does not end it. This is the rarer, the larger memory.Options.MaxKeys is. Give Bans a
// memory store of their own if clients can fill the one of the limits, by their number or with
// subjects that they choose.
//
// While the store fails, Limiter.OnFailure decides. Rejections that cannot be counted are answered
// as usual.
//
// All methods may be used by any number of goroutines.
type Bans struct {
	key              KeyFunc
	after            int64
	recheck          time.Duration
	code             errors.CloseCode
	lasts            time.Duration // a ban for rejections
	rejections, bans *limit.Limiter
	start            time.Time
	known            banCache
	cleared          *ingress.Key[*atomic.Int64] // when a connection was found not banned
}

// NewBans returns Bans over a store. It panics if an option is not valid or the store is no
// [limit.ExtendedStore].
func NewBans(store limit.Store, options ...BanOptions) *Bans {
	o := given.Must("ratelimit", "NewBans", options)
	o = o.withDefaults(store)
	b := &Bans{key: o.Key, after: int64(o.After), recheck: o.Recheck, code: o.CloseCode, lasts: o.Ban, start: time.Now()}
	b.rejections = limit.New(store, o.rejectionPolicy(), limitname.With(o.Limiter, "/rejections"))
	b.bans = limit.New(store, banPolicy, limitname.With(o.Limiter, "/bans"))
	b.known.lasts = o.Recheck
	b.cleared = ingress.NewKey[*atomic.Int64]()
	return b
}

func (o BanOptions) withDefaults(store limit.Store) BanOptions {
	if _, ok := store.(limit.ExtendedStore); !ok {
		panic("ratelimit: NewBans over a store that is nil or cannot Peek; use a store that can read a limit without charging it")
	}
	limitname.Must("ratelimit", "NewBans", "BanOptions", store, o.Limiter)
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
	if err := checkBan(o.Ban); err != nil {
		panic("ratelimit: BanOptions.Ban: " + err.Error())
	}
	return o
}

func (o BanOptions) rejectionPolicy() limit.Policy {
	return limit.Named("rejections", limit.SlidingWindow{Limit: int64(o.After), Window: o.Within})
}

// banPolicyName is the policy of a rejection for a ban.
const banPolicyName = "ban"

// longestBan bounds a ban.
const longestBan = 10 * 365 * 24 * time.Hour

// banPolicy is a bucket of milliseconds: a ban takes as many as it lasts, and they are back when it ends.
var banPolicy = limit.Named(banPolicyName, limit.TokenBucket{Capacity: longestBan.Milliseconds(), Refill: 1, Per: time.Millisecond})

func checkBan(d time.Duration) error {
	if d < time.Millisecond || d > longestBan {
		return errors.InvalidArgument.Errorf("a ban of %v: give one from 1ms to 10 years", d)
	}
	return nil
}

// Middleware rejects the frames of banned clients, and counts every *errors.LimitExceeded of
// the middleware after it, unless its Silent is set: rejections without an answer do not lead to a
// ban. Add it before the limits. The rejection that leads to a ban closes
// the connection. The router's hook OnLimitExceeded gets it like any other, with Close set.
func (b *Bans) Middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		banned, err := b.look(c)
		if err != nil {
			return err
		}
		if banned > 0 {
			return c.Reject(b.ban(errors.LimitExceeded{
				Kind: errors.LimitBanned, Observed: b.after, Limit: b.after,
				Limiter: b.bans.Name(), Policy: banPolicyName,
			}, banned))
		}
		err = next(c)
		if l := counted(err); l != nil {
			if banned := b.countRejection(c.Context(), c); banned > 0 {
				return c.Reject(b.ban(*l, banned))
			}
		}
		return err
	}
}

// Count counts err if it is a rejection, and returns it; if the rejection leads to a ban, it
// returns one that closes the connection. It is for rejections that do not pass
// [Bans.Middleware], such as those of handlers:
//
//	r.UseHandler(func(next router.Handler) router.Handler {
//		return func(c *router.Context) error { return bans.Count(c, c.IP(), *c.Identity, next(c)) }
//	})
//
// Do not count a rejection twice. Rejections by the router itself, of frames that are too large
// and of too many requests in flight, can be counted in its hook; a ban then applies to the
// next frame:
//
//	OnLimitExceeded: func(i router.LimitInfo) {
//		if i.Kind == errors.LimitPayload || i.Kind == errors.LimitInFlight {
//			_ = bans.Count(context.Background(), i.IP, i.Identity, &i.LimitExceeded)
//		}
//	},
func (b *Bans) Count(ctx context.Context, ip netip.Addr, id ingress.Identity, err error) error {
	l := counted(err)
	if l == nil {
		return err
	}
	// An aborted request is counted, too.
	banned := b.countRejection(context.WithoutCancel(ctx), &ingress.Context{IP: ip, Identity: id})
	if banned <= 0 {
		return err
	}
	e := b.ban(*l, banned)
	return &e
}

// Banned returns how long the client with this address and identity is still banned; 0 means
// not banned. It is for a connection gate ([GateOptions].Banned). Bans are cached for Recheck.
// The error is UNAVAILABLE if the store fails under limit.FailClosed.
func (b *Bans) Banned(ctx context.Context, ip netip.Addr, id ingress.Identity) (time.Duration, error) {
	buf := enforce.Buffers.Get().(*[]byte)
	defer enforce.Buffers.Put(buf)
	return b.ask(ctx, b.subject(b.bans, &ingress.Context{IP: ip, Identity: id}, buf), b.now())
}

// Ban bans the client with this address and identity, of which [BanOptions].Key makes the subject, for a time from 1 ms
// to 10 years. A ban that would end later stays; bans of several processes at the same instant may add up. It applies
// at once in this process and to every new connection, and to open connections of other processes within Recheck, each
// with its next frame: to end them now, close the User of the router afterwards. The error is that of the store, or
// INVALID_ARGUMENT for the time.
func (b *Bans) Ban(ctx context.Context, ip netip.Addr, id ingress.Identity, lasts time.Duration) error {
	if err := checkBan(lasts); err != nil {
		return err
	}
	buf := enforce.Buffers.Get().(*[]byte)
	defer enforce.Buffers.Put(buf)
	key := b.subject(b.bans, &ingress.Context{IP: ip, Identity: id}, buf)
	now, begun := b.now(), b.known.unbansOf(key.Bytes())
	d, err := b.take(ctx, key, lasts)
	if err == nil {
		b.known.put(key.Bytes(), now, d, begun)
	}
	return err
}

// Unban ends the ban of the client with this address and identity and resets its count: in this
// process when Unban returns, in others within Recheck. The error is that of the
// store.
func (b *Bans) Unban(ctx context.Context, ip netip.Addr, id ingress.Identity) error {
	buf := enforce.Buffers.Get().(*[]byte)
	defer enforce.Buffers.Put(buf)
	other := enforce.Buffers.Get().(*[]byte)
	defer enforce.Buffers.Put(other)
	c := &ingress.Context{IP: ip, Identity: id}
	key := b.subject(b.bans, c, buf)
	return b.known.unban(key.Bytes(), func() error {
		if err := b.rejections.Reset(ctx, b.subject(b.rejections, c, other)); err != nil {
			return err
		}
		return b.bans.Reset(ctx, key)
	})
}

// counted returns the rejection that an error contains, nil if there is none that counts.
func counted(err error) *errors.LimitExceeded {
	if err == nil {
		return nil
	}
	l, ok := err.(*errors.LimitExceeded)
	if !ok {
		l, _ = errors.AsType[*errors.LimitExceeded](err)
	}
	if l == nil || l.Silent {
		return nil
	}
	return l
}

// ban returns a rejection that closes the connection.
func (b *Bans) ban(l errors.LimitExceeded, banned time.Duration) errors.LimitExceeded {
	l.Close, l.RetryAfter, l.Never = b.code, banned, false
	return l
}

func (b *Bans) now() time.Duration { return time.Since(b.start) }
