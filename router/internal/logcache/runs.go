package logcache

import "bytes"

// blocks is memory for the frames of a page.
type blocks struct {
	block []byte
	left  int // bytes that are yet to come, at most
}

// blockSize is how many bytes leave with one write at most, and how much memory a client may keep that has yet to take
// a part of it.
const blockSize = 16 << 10

// add copies a frame to the end of the block, or into another block. follows reports that it follows the frame that was
// added before it. Nothing may be appended to what is returned.
func (b *blocks) add(frame []byte) (copied []byte, follows bool) {
	b.left -= len(frame)
	if len(frame) > blockSize {
		b.block = nil
		return bytes.Clone(frame), false
	}
	from := len(b.block)
	if follows = len(frame) <= cap(b.block)-from; !follows {
		b.block, from = make([]byte, 0, min(len(frame)+max(0, b.left), blockSize)), 0
	}
	b.block = append(b.block, frame...)
	return b.block[from:], follows && from > 0
}

// Run returns the frames of the first n messages, which are contiguous in memory and have at most room bytes, and how
// many frames these are. Messages without a frame count for n alone.
func Run(list []Message, room int) (run []byte, frames, n int) {
	for ; n < len(list); n++ {
		m := &list[n]
		switch {
		case m.Frame == nil:
			continue
		case run != nil && !m.follows || len(run)+len(m.Frame) > room:
			return run, frames, n
		case run == nil:
			run = m.Frame
		default:
			run = run[:len(run)+len(m.Frame)]
		}
		frames++
	}
	return run, frames, n
}
