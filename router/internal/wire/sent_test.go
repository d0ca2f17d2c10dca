package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is queued when AwaitSent is called has left when it returns, however much is queued behind it.
func TestAwaitSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g, owner := gated(t, 1<<20)
		add := func(b byte) {
			if err := o.Append(frameOf(b, 2*chunkSize)); err != nil { // a write of its own
				t.Error(err)
			}
		}
		add('a')
		returned := make(chan string)
		go func() {
			o.AwaitSent(time.Minute)
			returned <- g.written()
		}()
		synctest.Wait()
		for range 10 {
			add('b')
		}
		for _, what := range []string{"head", "a"} {
			select {
			case <-returned:
				t.Fatalf("it returns before %q is written", what)
			default:
			}
			g.pass <- struct{}{}
			synctest.Wait()
		}
		if got := len(<-returned); got != len("head")+2*chunkSize {
			t.Errorf("it returns when %d bytes are written", got)
		}
		if owner.slow.Load() != 0 {
			t.Error("the client is taken for slow")
		}
		g.open()
		o.AwaitSent(time.Minute)
		if o.Queued() != 0 {
			t.Error("it returns while something is queued")
		}
		o.AwaitSent(0) // of nothing
	})
}

// A client that does not read is disconnected, and gets nothing more.
func TestAwaitSentOfAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g, owner := gated(t, 1<<20)
		if err := o.Append([]byte("late")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		o.AwaitSent(time.Second)
		if took := time.Since(start); took != time.Second || !o.Gone() || owner.slow.Load() != 1 {
			t.Errorf("after %v: gone %t, slow %d", took, o.Gone(), owner.slow.Load())
		}
		if g.written() != "" || o.Append([]byte("more")) != ErrClosed {
			t.Errorf("%q is written", g.written())
		}
	})
}
