package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/race"
)

// Whatever is queued, replaced, dropped and written, in a queue long enough for an index and
// in a short one: what leaves is what a list would hold that is searched from its beginning.
func TestLatestAgreesWithAList(t *testing.T) {
	for seed := range uint64(race.Fewer(30)) {
		random := rand.New(rand.NewPCG(seed, 1))
		keys := []int{3, 80, 300}[seed%3]
		limit := []int{1 << 20, 4000}[seed%2] // never full, or for about 150 frames
		o, g, _ := gated(t, limit)
		list, want := []string{"head"}, "" // list[0] is being written
		size := func() (n int) {
			for _, f := range list {
				n += len(f)
			}
			return n
		}
		publish := func(i int) {
			key := fmt.Sprintf("k%03d", random.IntN(keys))
			frame := fmt.Sprintf("%s%06d%s", key, i, strings.Repeat(".", random.IntN(30)))
			if err := shared(o, []byte(frame), LatestOnly, key); err != nil {
				t.Fatal(err)
			}
			for j := 1; j < len(list); j++ {
				if strings.HasPrefix(list[j], key) {
					if size()-len(list[j])+len(frame) > limit {
						list = slices.Delete(list, j, j+1)
						break
					}
					list[j] = frame
					return
				}
			}
			for len(list) > 1 && size()+len(frame) > limit {
				list = append(list[:1], list[2:]...)
			}
			list = append(list, frame)
		}
		for i := range 4000 {
			if random.IntN(100) >= 3 || len(list) == 1 {
				publish(i)
				continue
			}
			for range min(len(list)-1, random.IntN(40)) {
				g.pass <- struct{}{}
				<-g.arrived
				want, list = want+list[0], list[1:]
			}
			o.mu.Lock()
			index := len(o.latest.index)
			o.mu.Unlock()
			if index > len(list) {
				t.Fatalf("the index has %d keys of %d frames", index, len(list))
			}
		}
		want += strings.Join(list, "")
		if got := flushed(t, o, g); got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("seed %d: %d bytes left, want %d; they differ at %d: %.60q, want %.60q", seed, len(got), len(want), at, got[at:], want[at:])
		}
	}
}

// A frame that is replaced by a larger one, which fits nowhere, leaves nothing behind.
func TestLatestDropsWhatDidNotFit(t *testing.T) {
	o, g, _ := gated(t, 4000)
	want := "head"
	publish := func(n int, overflow Overflow) {
		if err := shared(o, frameOf('0'+byte(overflow), n), overflow, "key"); err != nil {
			t.Fatal(err)
		}
	}
	for range indexedFrom {
		publish(10, DropNewest) // is never dropped once it is queued
		want += strings.Repeat("2", 10)
	}
	for range lookedLimit/indexedFrom + 2 {
		publish(10, LatestOnly)
	}
	publish(4000, LatestOnly)
	publish(5, LatestOnly)
	want += strings.Repeat("3", 5)
	if got := flushed(t, o, g); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// BenchmarkNewKeys is a message of a new key for a client that is behind, whose queue is full: it costs the same however
// much that is.
func BenchmarkNewKeys(b *testing.B) {
	for _, limit := range []int{1 << 15, 1 << 20} {
		b.Run(fmt.Sprint(limit, " bytes"), func(b *testing.B) {
			g := newGate()
			s := NewStream(g, nil, time.Now())
			defer s.Abort()
			s.Out.Configure(limit, hangGuard, new(counts))
			frame := make([]byte, 150)
			names := make([]string, 50_000)
			for i := range names {
				names[i] = fmt.Sprintf("position of user %09d", i)
			}
			for i := range limit / 100 {
				_, _ = s.Out.AppendShared(frame, LatestOnly, names[i%len(names)])
			}
			for i := 0; b.Loop(); i++ {
				_, _ = s.Out.AppendShared(frame, LatestOnly, names[i%len(names)])
			}
		})
	}
}

// BenchmarkLatest is a message for a client that is behind: how much it costs does not depend
// on how many keys wait.
func BenchmarkLatest(b *testing.B) {
	for _, keys := range []int{10, 1000, 6000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			g := newGate()
			s := NewStream(g, nil, time.Now())
			defer s.Abort()
			s.Out.Configure(1<<20, hangGuard, new(counts))
			frame := make([]byte, 150)
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprintf("position of user %09d", i)
			}
			for i := 0; b.Loop(); i += 7 {
				_, _ = s.Out.AppendShared(frame, LatestOnly, names[i%keys])
			}
		})
	}
}
