package wire

import (
	"strings"
	"testing"
)

// A message that may be dropped as the newest takes no room from older ones, also from such as may be dropped.
func TestTheNewestDropsNoOlderOne(t *testing.T) {
	const limit, size = 4 << 10, 1 << 10
	o, g, owner := gated(t, limit)
	want := "head"
	for i := byte('a'); o.Queued()+size <= limit; i++ {
		want += string(frameOf(i, size))
		if err := shared(o, frameOf(i, size), DropOldest, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared(o, frameOf('z', size), DropNewest, ""); err != nil {
		t.Fatal(err)
	}
	if got := flushed(t, o, g); got != want {
		t.Errorf("%d bytes came, want %d; the newest came: %v", len(got), len(want), strings.Contains(got, "z"))
	}
	if n := owner.dropped.Load(); n != 1 {
		t.Errorf("%d frames are counted as dropped, want 1", n)
	}
}

// The rest of a frame that was sent in part is not dropped for newer frames, whichever goroutine writes it.
func TestTheRestOfAFrameIsNotDropped(t *testing.T) {
	t.Parallel()
	const size = 2 << 10
	var s Stream
	o := &s.Out
	o.init(&s)
	o.Configure(2*size, 0, nil)
	put := func(b byte) {
		t.Helper()
		if err := shared(o, frameOf(b, size), DropOldest, ""); err != nil {
			t.Fatal(err)
		}
	}
	put('a')
	o.mu.Lock()
	o.take()
	o.wrote(size / 2) // the socket takes no more
	o.mu.Unlock()
	put('b')
	put('c') // in place of b
	rest, next := o.queue[o.head], o.queue[len(o.queue)-1]
	if len(rest.b) != size/2 || rest.b[0] != 'a' || next.b[0] != 'c' {
		t.Errorf("%d bytes of %q are next, and %q is the last frame", len(rest.b), rest.b[:1], next.b[:1])
	}
}
