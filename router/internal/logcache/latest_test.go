package logcache

import (
	"math/rand/v2"
	"testing"

	"github.com/wskit/wskit/pubsub"
)

// position is one of a log, whose tag depends on its offset.
func position(offset uint64) pubsub.Position {
	if offset == 0 {
		return pubsub.Position{Epoch: 7}
	}
	return pubsub.Position{Epoch: 7, Offset: offset, Tag: uint32(offset) + 1000}
}

// What is kept of the last messages while clients resume is bounded. From each position it gives all that was
// delivered after it, or nothing.
func TestLatestMessagesAreKeptWithoutAGap(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]func() int{
		"small": func() int { return 10 },
		"large": func() int { return rand.IntN(40 << 10) },
		"mixed": func() int {
			if rand.IntN(50) == 0 {
				return rand.IntN(600 << 10)
			}
			return rand.IntN(200)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const messages = 3000
			var l Latest
			l.Begin(position(0))
			served := 0
			for last := 1; last <= messages; last++ {
				l.Keep(position(uint64(last)), make([]byte, size()))
				bytes := 0
				for _, m := range l.list {
					bytes += len(m.Frame)
				}
				if len(l.list) > 512 || bytes > 1<<20 {
					t.Fatalf("%d messages and %d bytes are kept", len(l.list), bytes)
				}
				// All positions near the ends of what is kept, and some others.
				begin := int(l.from.Offset)
				for _, at := range []int{0, begin - 2, begin - 1, begin, begin + 1, begin + 2, last - 2, last - 1, last, last + 1, rand.IntN(last + 1)} {
					if at < 0 {
						continue
					}
					list := l.After(position(uint64(at)))
					if len(list) == 0 {
						continue
					}
					served++
					if len(list) != last-at {
						t.Fatalf("after %d of %d there are %d messages", at, last, len(list))
					}
					for i, m := range list {
						if m.At != position(uint64(at+1+i)) {
							t.Fatalf("message %d after %d is %v", i+1, at, m.At)
						}
					}
				}
				if name == "small" && last > 100 && len(l.After(position(uint64(last-100)))) != 100 {
					t.Fatalf("the last 100 messages of %d are not kept", last)
				}
				if stranger := position(uint64(last - 1)); len(l.After(pubsub.Position{Epoch: 8, Offset: stranger.Offset, Tag: stranger.Tag})) > 0 {
					t.Fatal("a position of another log has messages after it")
				}
			}
			if served < messages {
				t.Errorf("only %d times was there anything after a position", served)
			}
			moved := l.Moved()
			l.End(position(messages))
			select {
			case <-moved:
			default:
				t.Error("a client that waits is not woken")
			}
			if l.Keep(position(messages+1), nil); len(l.list) > 0 {
				t.Error("messages are kept although no client resumes")
			}
		})
	}
}
