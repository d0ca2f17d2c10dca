package ratelimit

import (
	"context"
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
	d, err := s.bans.PeekKey(ctx, key, 1)
	if err != nil || d.Allowed {
		return 0, err
	}
	s.known.put(key.Bytes(), now, d.RetryAfter)
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
	s.known.put(key.Bytes(), now, banned)
	return banned
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
}

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

// forget forgets a ban.
func (b *beliefs) forget(key []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.new, string(key))
	delete(b.old, string(key))
}

// put notes a ban. What is older than can be believed goes, and the older half when
// there is no room.
func (b *beliefs) put(key []byte, now, banned time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.new == nil || len(b.new) >= maxBeliefs || now-b.since >= b.lasts {
		b.old, b.new, b.since = b.new, map[string]belief{}, now
	}
	k := belief{until: now + banned, believed: now + min(banned, b.lasts)}
	b.new[string(key)] = k
	b.latest.Store(max(b.latest.Load(), int64(k.believed)))
}
