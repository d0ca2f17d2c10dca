package ratelimit

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// look returns how long the sender of a frame is still banned. For a connection that was not
// banned, this is cached, unless this process has banned its subject since.
func (b *Bans) look(c *ingress.Context) (banned time.Duration, err error) {
	now := b.now()
	at, ok := b.cleared.Get(&c.Identity)
	clear := ok && now-time.Duration(at.Load()) < b.recheck
	if clear && b.known.none(now) {
		return 0, nil
	}
	buf := enforce.Buffers.Get().(*[]byte)
	defer enforce.Buffers.Put(buf)
	key := b.subject(b.bans, c, buf)
	if clear {
		return b.known.get(key.Bytes(), now), nil
	}
	if banned, err = b.ask(c.Context(), key, now); banned > 0 || err != nil {
		return banned, err
	}
	if !ok {
		at = new(atomic.Int64)
		b.cleared.Set(&c.Identity, at)
	}
	at.Store(int64(now))
	return 0, nil
}

// ask returns how long a subject is still banned, from the cache or from the store.
func (b *Bans) ask(ctx context.Context, key limit.Key, now time.Duration) (banned time.Duration, err error) {
	if banned = b.known.get(key.Bytes(), now); banned > 0 {
		return banned, nil
	}
	begun := b.known.unbansOf(key.Bytes())
	d, err := b.bans.Peek(ctx, key, 1)
	if err != nil || d.ResetAfter == 0 {
		return 0, err
	}
	b.known.put(key.Bytes(), now, d.ResetAfter, begun)
	return d.ResetAfter, nil
}

// take has a subject banned for a time from now on at least, and returns for how long it is. Calls at the same instant
// may add up.
func (b *Bans) take(ctx context.Context, key limit.Key, lasts time.Duration) (banned time.Duration, err error) {
	d, err := b.bans.Peek(ctx, key, 1)
	if err != nil || d.ResetAfter >= lasts {
		return d.ResetAfter, err
	}
	d, err = b.bans.Take(ctx, key, ceil.Div(lasts-d.ResetAfter, time.Millisecond))
	return d.ResetAfter, err
}

// countRejection counts a rejection, and bans its subject if there are too many.
func (b *Bans) countRejection(ctx context.Context, c *ingress.Context) (banned time.Duration) {
	now := b.now()
	buf := enforce.Buffers.Get().(*[]byte)
	defer enforce.Buffers.Put(buf)
	if banned = b.known.get(b.subject(b.bans, c, buf).Bytes(), now); banned > 0 {
		return banned // on another connection, since it was looked up
	}
	begun := b.known.unbansOf(b.subject(b.bans, c, buf).Bytes())
	d, err := b.rejections.Take(ctx, b.subject(b.rejections, c, buf), 1)
	if err != nil || d.Allowed && d.Remaining > 0 {
		return 0
	}
	key := b.subject(b.bans, c, buf)
	if banned, ours := b.known.begin(key.Bytes(), now, b.lasts, begun); !ours {
		return banned
	}
	if banned, err = b.take(ctx, key, b.lasts); err != nil {
		b.known.drop(key.Bytes())
		return 0
	}
	if b.known.put(key.Bytes(), now, banned, begun) {
		return banned
	}
	_ = b.bans.Reset(ctx, key) // for rejections that Unban forgot before the ban
	return 0
}

// subject is the key of a client, in a buffer.
func (b *Bans) subject(l *limit.Limiter, c *ingress.Context, buf *[]byte) limit.Key {
	key := b.key(l.Key(*buf), c)
	if b := key.Bytes(); b != nil {
		*buf = b
	}
	return key
}

// banCache has the bans that this process has read. Each is cached for the time lasts, so that
// bans that were ended elsewhere end here, too. Their number is bounded: those that are dropped
// are read from the store again.
type banCache struct {
	lasts  time.Duration
	latest atomic.Int64 // the last time at which an entry expires

	mu       sync.RWMutex
	new, old map[string]cachedBan
	since    time.Duration // when new was begun

	unbans [64]unbans // by a hash of the subject
}

// unbans counts the calls of Unban that have begun and ended. An answer of the store that was
// read during such a call may be outdated and must not be cached. (A call for another subject
// with the same hash has no effect except another read.)
type unbans struct{ begun, ended int }

var banSeed = maphash.MakeSeed()

type cachedBan struct{ until, expires time.Duration }

// maxCachedBans bounds each of the two maps.
const maxCachedBans = 1 << 15

// none reports whether all entries have expired.
func (b *banCache) none(now time.Duration) bool { return int64(now) >= b.latest.Load() }

// get returns how long a subject is still banned, or 0 if it has no entry.
func (b *banCache) get(key []byte, now time.Duration) time.Duration {
	if b.none(now) {
		return 0
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.find(key, now)
}

// find is get with mu held.
func (b *banCache) find(key []byte, now time.Duration) time.Duration {
	for _, m := range [...]map[string]cachedBan{b.new, b.old} {
		if k, ok := m[string(key)]; ok && now < k.expires {
			return max(0, k.until-now)
		}
	}
	return 0
}

// unbansOf returns the unbans of a subject. Call it before the store is read, for put.
func (b *banCache) unbansOf(key []byte) unbans {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return *b.unbansAt(key)
}

func (b *banCache) unbansAt(key []byte) *unbans {
	return &b.unbans[maphash.Bytes(banSeed, key)%uint64(len(b.unbans))]
}

// unban calls reset, which ends the ban in the store, and removes the entry if that succeeds.
func (b *banCache) unban(key []byte, reset func() error) error {
	b.mu.Lock()
	p := b.unbansAt(key)
	p.begun++
	b.mu.Unlock()
	err := reset()
	b.mu.Lock()
	defer b.mu.Unlock()
	p.ended++
	if err == nil {
		b.remove(key)
	}
	return err
}

// drop removes an entry.
func (b *banCache) drop(key []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(key)
}

// remove is drop with mu held.
func (b *banCache) remove(key []byte) {
	delete(b.new, string(key))
	delete(b.old, string(key))
}

// begin adds a ban that is about to be made, and reports that it did, or returns that of another connection: one of
// those that are rejected at once bans their subject. After an Unban since unbansOf returned begun it does neither.
func (b *banCache) begin(key []byte, now, lasts time.Duration, begun unbans) (banned time.Duration, ours bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if banned = b.find(key, now); banned > 0 {
		return banned, false
	}
	return 0, b.add(key, now, lasts, begun)
}

// put adds a ban, unless an Unban was called since unbansOf returned begun, and reports whether
// it did. It drops entries that have expired, and the older half if there are too many.
func (b *banCache) put(key []byte, now, banned time.Duration, begun unbans) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.add(key, now, banned, begun)
}

// add is put with mu held.
func (b *banCache) add(key []byte, now, banned time.Duration, begun unbans) bool {
	if begun != *b.unbansAt(key) || begun.begun != begun.ended {
		return false
	}
	if b.new == nil || len(b.new) >= maxCachedBans || now-b.since >= b.lasts {
		b.old, b.new, b.since = b.new, map[string]cachedBan{}, now
	}
	k := cachedBan{until: now + banned, expires: now + min(banned, b.lasts)}
	b.new[string(key)] = k
	b.latest.Store(max(b.latest.Load(), int64(k.expires)))
	return true
}
