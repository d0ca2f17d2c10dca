package wire

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/race"
)

// pageFrames are about as many bytes as a client that resumes is sent in one turn.
func pageFrames() [][]byte {
	frames := make([][]byte, 128)
	for i := range frames {
		frames[i] = frameOf(byte(i), 200)
	}
	return frames
}

// unflushed is an outbox that only the test writes.
func unflushed() *Outbox {
	o := &NewStream(newGate(), nil, time.Now()).Out
	o.Configure(1<<20, hangGuard, &counts{})
	return o
}

// A page of messages is queued and sent without allocations, however often.
func TestAPageAllocatesNothing(t *testing.T) {
	o, frames := unflushed(), pageFrames()
	send := func() {
		for _, f := range frames {
			if err := o.Append(f); err != nil {
				t.Fatal(err)
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for !o.empty() { // as writeOut does, with a socket that takes all
			o.wrote(len(o.take()))
		}
	}
	if n := testing.AllocsPerRun(500, send); n >= 1 && !race.Enabled {
		t.Errorf("%v allocations", n)
	}
}

// The memory of a queue that has left is as new: the next connection that borrows it sends its own frames alone. That
// holds for a connection that ends with a long queue, too.
func TestTheMemoryOfALongQueueIsCleared(t *testing.T) {
	frames := pageFrames()
	for _, end := range []struct {
		name string
		end  func(*Outbox)
	}{
		{"sent", func(o *Outbox) {
			for !o.empty() {
				o.wrote(len(o.take()))
			}
		}},
		{"sent in part, then reset", func(o *Outbox) {
			o.wrote(len(o.take()))
			o.wrote(len(o.take()) / 2)
			o.shut()
		}},
		{"reset while it is written", func(o *Outbox) {
			o.take()
			o.shut()
		}},
		{"too slow, then sent", func(o *Outbox) {
			o.limit, o.flushing = o.queued, true
			_ = o.add(frames[0])
			for !o.empty() {
				o.wrote(len(o.take()))
			}
		}},
		{"dropped", func(o *Outbox) {
			for i := 1; i < len(o.queue); i++ {
				o.queue[i].drop = true
			}
			o.limit = o.queued
			o.dropOldest(o.limit/2, math.MaxInt)
			for !o.empty() {
				o.wrote(len(o.take()))
			}
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			o := unflushed()
			for _, f := range frames {
				if err := o.Append(f); err != nil {
					t.Fatal(err)
				}
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			borrowed := o.queue[:cap(o.queue)]
			if len(borrowed) != len(longQueue{}) {
				t.Fatalf("the queue has room for %d segments", len(borrowed))
			}
			if o.first[0].b != nil || o.first[1].b != nil {
				t.Error("the outbox keeps segments that the longer queue has")
			}
			end.end(o)
			for i := range borrowed {
				if s := &borrowed[i]; s.b != nil || s.chunk != nil || s.frames != 0 || s.drop {
					t.Errorf("segment %d is left behind: %d bytes", i, len(s.b))
				}
			}
			if !bytes.Equal(frames[1], frameOf(1, 200)) {
				t.Error("a frame has changed")
			}
		})
	}
}
