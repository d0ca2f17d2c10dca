package logcache

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A client gets the frames of a page in their order, each once, in runs that are no larger than there is room.
func TestFramesLeaveInRuns(t *testing.T) {
	t.Parallel()
	for range 200 {
		var page blocks
		var list []Message
		var want []byte
		frames := 0
		sizes := make([]int, 1+rand.IntN(200))
		for i := range sizes {
			sizes[i] = rand.IntN(600)
			if rand.IntN(20) == 0 {
				sizes[i] = rand.IntN(3 * blockSize)
			}
			page.left += sizes[i]
		}
		for _, size := range sizes {
			if size == 0 || rand.IntN(10) == 0 {
				list = append(list, Message{}) // no event
				continue
			}
			if rand.IntN(30) == 0 {
				page = blocks{left: size} // another page
			}
			frame := bytes.Repeat([]byte{byte(rand.IntN(256))}, size)
			copied, follows := page.add(frame)
			list = append(list, Message{Frame: copied, follows: follows})
			want = append(want, frame...)
			frames++
		}
		for i := range list { // as a member gets one of them alone
			if list[i].Frame != nil && !bytes.Contains(want, list[i].Frame) {
				t.Fatal("a frame has changed")
			}
		}
		var got []byte
		for i := 0; i < len(list); {
			room := rand.IntN(4 * blockSize)
			run, some, n := Run(list[i:], room)
			if len(run) > room || n == 0 && len(list[i].Frame) <= room {
				t.Fatalf("%d frames, %d bytes, with room for %d", n, len(run), room)
			}
			got = append(got, run...)
			frames -= some
			i += n
		}
		if !bytes.Equal(got, want) || frames != 0 {
			t.Fatalf("%d bytes of %d, and %d frames are missing", len(got), len(want), frames)
		}
	}
}

// Small frames of a page are one run, but for the ends of blocks.
func TestPageIsFewRuns(t *testing.T) {
	t.Parallel()
	const n, size = 128, 200
	page := blocks{left: n * size}
	var list []Message
	for range n {
		frame, follows := page.add(make([]byte, size))
		list = append(list, Message{Frame: frame, follows: follows})
	}
	runs := 0
	for len(list) > 0 {
		_, _, some := Run(list, n*size)
		list = list[some:]
		runs++
	}
	if most := (n*size + blockSize - 1) / blockSize; runs > most {
		t.Errorf("a page of %d bytes is %d runs, want %d at most", n*size, runs, most)
	}
}
