package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

// What a process caches of bans is bounded, however many there are, and
// is forgotten when it is not believed any more.
func TestBanCacheIsBounded(t *testing.T) {
	b := banCache{lasts: 5 * time.Second}
	now := time.Second
	for i := range 5 * maxCachedBans {
		b.put(fmt.Append(nil, i), now, time.Hour, unbans{})
		if n := len(b.new) + len(b.old); n > 2*maxCachedBans {
			t.Fatalf("%d bans are remembered", n)
		}
	}
	if got := b.get(fmt.Append(nil, 5*maxCachedBans-1), now); got != time.Hour {
		t.Errorf("the newest ban lasts for %v", got)
	}
	if got := b.get(fmt.Append(nil, 0), now); got != 0 {
		t.Errorf("the oldest ban is remembered: %v", got)
	}
	for range 2 {
		now += b.lasts
		if !b.none(now - b.lasts + time.Second) {
			b.put([]byte("x"), now, time.Hour, unbans{})
		}
	}
	if n := len(b.new) + len(b.old); n > 2 {
		t.Errorf("%d bans are remembered that are not believed", n)
	}
}

func TestBanCache(t *testing.T) {
	b := banCache{lasts: 5 * time.Second}
	key := []byte("ann")
	want := func(now, want time.Duration) {
		t.Helper()
		if got := b.get(key, now); got != want {
			t.Errorf("at %v: banned for %v, want %v", now, got, want)
		}
	}
	want(0, 0)
	b.put(key, time.Second, time.Minute, unbans{})
	want(time.Second, time.Minute)
	want(6*time.Second-1, 55*time.Second+1)
	b.put([]byte("bob"), 3*time.Second, time.Minute, unbans{})
	want(6*time.Second, 0) // to be asked for again
	b.put(key, 7*time.Second, 2*time.Second, unbans{})
	want(9*time.Second-1, 1)
	want(9*time.Second, 0) // over
	b.put(key, 10*time.Second, time.Minute, unbans{})
	b.put([]byte("bob"), 15*time.Second, time.Minute, unbans{})
	want(14*time.Second, 56*time.Second) // in the older half
	_ = b.unban(key, func() error {
		if b.put(key, 14*time.Second, time.Minute, b.unbansOf(key)) {
			t.Error("what is asked while an Unban is under way is remembered")
		}
		return nil
	})
	want(14*time.Second, 0)
	if b.put(key, 14*time.Second, time.Minute, unbans{}) {
		t.Error("what was asked before an Unban is remembered after it")
	}
	if !b.put(key, 14*time.Second, time.Minute, b.unbansOf(key)) {
		t.Error("a ban after an Unban is not remembered")
	}
}
