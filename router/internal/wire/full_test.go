package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/race"
)

// full is an outbox in which an old frame is dropped for each new one. The frame "mark" among those that are queued is never
// dropped.
func full(t *testing.T, n int) *Outbox {
	t.Helper()
	o := unflushed()
	o.Configure(n*100, hangGuard, &counts{})
	for i := range n / 2 {
		publishNew(t, o, i)
	}
	if err := shared(o, []byte("mark"), DropNewest, ""); err != nil {
		t.Fatal(err)
	}
	for i := n / 2; o.latest.index == nil || o.segments() < n-1; i++ {
		publishNew(t, o, i)
	}
	return o
}

func publishNew(t *testing.T, o *Outbox, i int) {
	t.Helper()
	key := fmt.Sprint("key ", i)
	if err := shared(o, fmt.Appendf(nil, "%-100s", key), LatestOnly, key); err != nil {
		t.Fatal(err)
	}
}

// In a full outbox, a frame that takes the place of an old one moves none of the others, and the index stays: a
// delivery costs the same however much is queued. All is moved together once half of it has been dropped.
func TestAFullOutboxMovesNothing(t *testing.T) {
	t.Parallel()
	const n, more = 4000, 40_000
	o := full(t, n)
	at := func() int { return slices.IndexFunc(o.queue, func(s segment) bool { return string(s.b) == "mark" }) }
	moved, before := 0, at()
	for i := range more {
		publishNew(t, o, 1_000_000+i)
		if o.latest.index == nil {
			t.Fatal("the index is gone")
		}
		if before >= len(o.queue) || string(o.queue[before].b) != "mark" {
			before = at()
			moved++
		}
	}
	if moved > 2*more/n {
		t.Errorf("frames are moved %d times for %d deliveries", moved, more)
	}
	if len(o.queue) > 3*n || len(o.latest.index) > n {
		t.Errorf("%d segments and an index of %d, for %d frames", len(o.queue), len(o.latest.index), n)
	}
}

// Small frames take more memory than their bytes: their number is bounded, too.
func TestTheNumberOfSmallFramesIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	tiny := []byte("\x81\x0c{\"type\":\"x\"}")
	memory := func(o *Outbox) (bytes int) {
		for _, s := range o.queue[o.head:] {
			bytes += cap(s.b)
		}
		return bytes + 64*cap(o.queue)
	}
	for name, send := range map[string]func(o *Outbox, i int) error{
		"dropped for newer ones": func(o *Outbox, i int) error { return shared(o, tiny, DropOldest, "") },
		"dropped when new":       func(o *Outbox, i int) error { return shared(o, tiny, DropNewest, "") },
		"of ever new keys":       func(o *Outbox, i int) error { return shared(o, tiny, LatestOnly, fmt.Sprint(i)) },
		"between two of others": func(o *Outbox, i int) error {
			if i%3 == 0 {
				return shared(o, tiny, DropOldest, "")
			}
			return shared(o, tiny, Disconnect, "")
		},
	} {
		o := unflushed()
		o.Configure(limit, hangGuard, &counts{})
		most := 0
		for i := range limit / len(tiny) {
			if err := send(o, i); err != nil && err != ErrOverflow && err != ErrClosed {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				most = max(most, memory(o))
			}
		}
		bound := 4 * limit
		if name == "between two of others" {
			bound = 8 * limit // those are bounded by their bytes alone
		}
		if most > bound {
			t.Errorf("frames that are %s take %d bytes, at most %d are expected", name, most, bound)
		}
	}
}

// Whatever is queued and however it may be dropped, what leaves is what a list would hold.
func TestAFullOutboxAgreesWithAList(t *testing.T) {
	t.Parallel()
	type frame struct {
		text, key string
		overflow  Overflow
	}
	for seed := range uint64(race.Fewer(15)) {
		random := rand.New(rand.NewPCG(seed, 7))
		limit := []int{2000, 12_000, 60_000}[seed%3]
		o, g, owner := gated(t, limit)
		list, want, dropped := []frame{{text: "head"}}, "", int64(0)
		size := func() (n int) {
			for _, f := range list {
				n += len(f.text)
			}
			return n
		}
		publish := func(i int) {
			f := frame{text: fmt.Sprintf("%06d%s", i, strings.Repeat(".", 60+random.IntN(60))), overflow: LatestOnly}
			switch n := random.IntN(20); {
			case n < 2 && size() < limit/2:
				f.overflow = Disconnect
			case n < 4:
				f.overflow = DropNewest
			case n < 8:
				f.overflow = DropOldest
			case n < 12:
				f.key = fmt.Sprint(random.IntN(30))
			default:
				f.key = fmt.Sprint("new ", i)
			}
			if err := shared(o, []byte(f.text), f.overflow, f.key); err != nil {
				t.Fatal(err)
			}
			if f.overflow == LatestOnly {
				for j := 1; j < len(list); j++ {
					if old := list[j]; old.overflow != LatestOnly || old.key != f.key {
						continue
					}
					dropped++
					if size()-len(list[j].text)+len(f.text) <= limit {
						list[j].text = f.text
						return
					}
					list = slices.Delete(list, j, j+1)
					break
				}
			}
			if f.overflow == LatestOnly || f.overflow == DropOldest || f.overflow == Disconnect {
				for j := 1; j < len(list) && size()+len(f.text) > limit; {
					if o := list[j].overflow; o == DropOldest || o == LatestOnly {
						list = slices.Delete(list, j, j+1)
						dropped++
						continue
					}
					j++
				}
			}
			if size()+len(f.text) > limit {
				dropped++
				return
			}
			list = append(list, f)
		}
		for i := range 3000 {
			if random.IntN(100) >= 2 || len(list) == 1 {
				publish(i)
				continue
			}
			for range random.IntN(60) {
				o.mu.Lock()
				n, last := len(o.queue[o.head].b), o.segments() == 1
				o.mu.Unlock()
				if last {
					break
				}
				g.pass <- struct{}{}
				<-g.arrived
				for n > 0 { // frames that are never dropped leave together
					n -= len(list[0].text)
					want, list = want+list[0].text, list[1:]
				}
			}
		}
		if n := owner.dropped.Load(); n != dropped {
			t.Fatalf("seed %d: %d frames are counted as dropped, want %d", seed, n, dropped)
		}
		for _, f := range list {
			want += f.text
		}
		if got := flushed(t, o, g); got != want {
			t.Fatalf("seed %d: %d bytes left, want %d", seed, len(got), len(want))
		}
	}
}
