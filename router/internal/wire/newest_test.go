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
