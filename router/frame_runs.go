package router

import "bytes"

// frameRuns is memory for the frames of a page. One lies behind the other, so that many leave with one write, and are
// copied for no client.
type frameRuns struct {
	block []byte
	left  int // bytes that are yet to come, at most
}

// maxRun is how many bytes leave with one write, and how much memory a client may keep that has yet to take a part.
const maxRun = 16 << 10

// add copies a frame behind the last one, or into another block. Nothing may be appended to what it returns.
func (f *frameRuns) add(frame []byte) []byte {
	f.left -= len(frame)
	if len(frame) > maxRun {
		return bytes.Clone(frame)
	}
	if len(frame) > cap(f.block)-len(f.block) {
		f.block = make([]byte, 0, min(len(frame)+max(0, f.left), maxRun))
	}
	from := len(f.block)
	f.block = append(f.block, frame...)
	return f.block[from:]
}

// inOneRun returns the frames of the first n messages, which lie behind one another in memory and have at most room
// bytes, and how many frames these are. Messages without a frame count for n alone.
func inOneRun(list []logged, room int) (run []byte, frames, n int) {
	for ; n < len(list); n++ {
		next := list[n].frame
		switch {
		case next == nil:
			continue
		case len(run)+len(next) > room:
			return run, frames, n
		case run == nil:
			run = next
		case len(next) > cap(run)-len(run) || &run[:len(run)+1][len(run)] != &next[0]:
			return run, frames, n
		default:
			run = run[:len(run)+len(next)]
		}
		frames++
	}
	return run, frames, n
}
