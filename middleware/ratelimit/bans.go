package ratelimit

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// look says how long the sender of a frame is still banned. A connection that was
// found not banned is believed, unless this process has banned its subject since.
func (s *Strikes) look(c *ingress.Context) (banned time.Duration, err error) {
	now := s.now()
	at, ok := s.cleared.Get(c)
	clear := ok && now-time.Duration(at.Load()) < s.recheck
	if clear && s.known.none(now) {
		return 0, nil
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	key := s.subject(s.bans, c, buf)
	if clear {
		return s.known.get(key.Bytes(), now), nil
	}
	if banned, err = s.ask(c.Context(), key, now); banned > 0 || err != nil {
		return banned, err
	}
	if !ok {
		at = new(atomic.Int64)
		s.cleared.Set(c, at)
	}
	at.Store(int64(now))
	return 0, nil
}

// ask says how long a subject is still banned, by what is known or by the store.
func (s *Strikes) ask(ctx context.Context, key limit.Key, now time.Duration) (banned time.Duration, err error) {
	if banned = s.known.get(key.Bytes(), now); banned > 0 {
		return banned, nil
	}
	begun := s.known.pardonsOf(key.Bytes())
	d, err := s.bans.PeekKey(ctx, key, 1)
	if err != nil || d.Allowed {
		return 0, err
	}
	s.known.put(key.Bytes(), now, d.RetryAfter, begun)
	return d.RetryAfter, nil
}

// strike counts a rejection, and bans its subject if it was one too many.
func (s *Strikes) strike(ctx context.Context, c *ingress.Context) (banned time.Duration) {
	now := s.now()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	if banned = s.known.get(s.subject(s.bans, c, buf).Bytes(), now); banned > 0 {
		return banned // on another connection, while this frame was under way
	}
	begun := s.known.pardonsOf(s.subject(s.bans, c, buf).Bytes())
	d, err := s.strikes.TakeKey(ctx, s.subject(s.strikes, c, buf), 1)
	if err != nil || d.Allowed && d.Remaining > 0 {
		return 0
	}
	key := s.subject(s.bans, c, buf)
	d, err = s.bans.TakeKey(ctx, key, 1)
	if err != nil {
		return 0
	}
	if banned = d.RetryAfter; d.Allowed {
		banned = d.ResetAfter
	}
	if s.known.put(key.Bytes(), now, banned, begun) {
		return banned
	}
	if d.Allowed { // for strikes that were pardoned before the ban
		_ = s.bans.ResetKey(ctx, key)
	}
	return 0
}

// subject is the key of a client's strikes or bans, in a buffer.
func (s *Strikes) subject(l *limit.Limiter, c *ingress.Context, buf *[]byte) limit.Key {
	key := s.key(l.Key(*buf), c)
	if b := key.Bytes(); b != nil {
		*buf = b
	}
	return key
}

// beliefs are the bans that this process knows of. Each is believed for as long as
// lasts says, and then looked up again, so that a ban that was taken back does not
// hold on. Their number is bounded: one that is forgotten is asked for again, by open
// connections when they next would.
type beliefs struct {
	lasts  time.Duration
	latest atomic.Int64 // until when any is believed

	mu       sync.RWMutex
	new, old map[string]belief
	since    time.Duration // when new was begun

	pardons [64]pardons // by a hash of the subject
}

// pardons say which have been under way. What was asked of the store while one was may
// be from before it: it must not be believed. (A pardon of another subject with the same
// hash makes a check be repeated, no more.)
type pardons struct{ begun, ended int }

var pardonSeed = maphash.MakeSeed()

type belief struct{ until, believed time.Duration }

// maxBeliefs bounds each of the two maps.
const maxBeliefs = 1 << 15

// none reports whether nothing is believed any more.
func (b *beliefs) none(now time.Duration) bool { return int64(now) >= b.latest.Load() }

// get says how long a subject is still banned, or 0 if that is not known.
func (b *beliefs) get(key []byte, now time.Duration) time.Duration {
	if b.none(now) {
		return 0
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, m := range [...]map[string]belief{b.new, b.old} {
		if k, ok := m[string(key)]; ok && now < k.believed {
			return max(0, k.until-now)
		}
	}
	return 0
}

// pardonsOf returns the pardons of a subject before the store is asked, for put.
func (b *beliefs) pardonsOf(key []byte) pardons {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return *b.pardoned(key)
}

func (b *beliefs) pardoned(key []byte) *pardons {
	return &b.pardons[maphash.Bytes(pardonSeed, key)%uint64(len(b.pardons))]
}

// pardon calls reset, which takes a ban back, and forgets the ban if that succeeds.
func (b *beliefs) pardon(key []byte, reset func() error) error {
	b.mu.Lock()
	p := b.pardoned(key)
	p.begun++
	b.mu.Unlock()
	err := reset()
	b.mu.Lock()
	defer b.mu.Unlock()
	p.ended++
	if err == nil {
		delete(b.new, string(key))
		delete(b.old, string(key))
	}
	return err
}

// put notes a ban, unless a pardon has been under way since the pardons were those given.
// It reports whether it did. What is older than can be believed goes, and the older half
// when there is no room.
func (b *beliefs) put(key []byte, now, banned time.Duration, begun pardons) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if begun != *b.pardoned(key) || begun.begun != begun.ended {
		return false
	}
	if b.new == nil || len(b.new) >= maxBeliefs || now-b.since >= b.lasts {
		b.old, b.new, b.since = b.new, map[string]belief{}, now
	}
	k := belief{until: now + banned, believed: now + min(banned, b.lasts)}
	b.new[string(key)] = k
	b.latest.Store(max(b.latest.Load(), int64(k.believed)))
	return true
}
