package wire

import "sync"

// buffer is memory for a message that does not lie in the stream's own buffer. It is
// borrowed from pools of a few sizes, and grows as the message does: what a client
// announces costs nothing until it comes.
type buffer struct{ b []byte }

// bufferSizes are those of the pools. A larger buffer is made for its message.
var bufferSizes = [...]int{16 << 10, 64<<10 + bufferSlack, 256<<10 + bufferSlack, 1<<20 + bufferSlack}

// bufferSlack is more than the largest message needs, so that one of a round size
// can be inflated without a look at the end of the buffer for each byte.
const bufferSlack = maxMatch

var bufferPools [len(bufferSizes)]sync.Pool

// newBuffer borrows a buffer for at least n bytes.
func newBuffer(n int) *buffer {
	for i, size := range bufferSizes {
		if n <= size {
			if b, ok := bufferPools[i].Get().(*buffer); ok {
				return b
			}
			return &buffer{make([]byte, 0, size)}
		}
	}
	return &buffer{make([]byte, 0, n)}
}

// free gives the buffer back.
func (b *buffer) free() {
	for i, size := range bufferSizes {
		if cap(b.b) == size {
			b.b = b.b[:0]
			bufferPools[i].Put(b)
			return
		}
	}
}

// grow makes room for at least n bytes in all, and for up to four times as many as
// there was as long as that is within limit.
func (b *buffer) grow(n, limit int) {
	if n <= cap(b.b) {
		return
	}
	more := newBuffer(max(n, min(4*cap(b.b), limit+bufferSlack)))
	more.b = append(more.b, b.b...)
	b.b, more.b = more.b, b.b
	more.free()
}

// add appends p, and reports whether all of it was within limit.
func (b *buffer) add(p []byte, limit int) bool {
	fits := len(p) <= limit-len(b.b)
	if !fits {
		p = p[:limit-len(b.b)]
	}
	b.grow(len(b.b)+len(p), limit)
	b.b = append(b.b, p...)
	return fits
}
