package engine

// A shared state takes as few words as possible, so that there can be many. An instant
// and a small number are packed into one word, and logs keep few pairs. Zeros mean that
// nothing is used, as in any state.

const (
	// numberBits is the size of the number that is packed with an instant.
	numberBits = 10
	maxNumber  = 1<<numberBits - 1
	// packedPairs is how many pairs a packed log has.
	packedPairs = 4
)

// packedWidth is how many words a shared state takes.
func (p *Plan) packedWidth() int {
	switch {
	case p.kind == kindLog:
		return int(min(p.log.limit, packedPairs))
	case p.oneWord():
		return 1
	case p.kind != kindAll:
		return p.Width
	}
	n := 0
	for _, part := range p.Parts {
		n += part.packedWidth()
	}
	return n
}

// oneWord reports whether the two words of a state fit into one.
func (p *Plan) oneWord() bool {
	return p.kind == kindBucket && p.bucket.q <= maxNumber+1 || p.kind == kindFixed && p.fixed.limit <= maxNumber
}

// unpack appends the state in words to state.
func (p *Plan) unpack(state, words []int64) []int64 {
	switch {
	case p.kind == kindAll:
		for _, part := range p.Parts {
			n := part.packedWidth()
			state, words = part.unpack(state, words[:n]), words[n:]
		}
		return state
	case p.kind == kindLog:
		n := len(state)
		state = append(state, 0)
		for _, w := range words {
			if w != 0 {
				state = append(state, w>>numberBits, w&maxNumber)
				state[n]++
			}
		}
		return state
	case p.oneWord():
		return append(state, words[0]>>numberBits, words[0]&maxNumber)
	}
	return append(state, words...)
}

// pack writes a state into words. A log with more pairs than packedPairs becomes stricter.
func (p *Plan) pack(words, state []int64) {
	switch {
	case p.kind == kindAll:
		for _, part := range p.Parts {
			n, size := part.packedWidth(), part.size(state)
			part.pack(words[:n], state[:size])
			words, state = words[n:], state[size:]
		}
	case p.kind == kindLog:
		for state[0] > int64(len(words)) {
			state = join(state, 0)
		}
		clear(words)
		for i := range state[0] {
			words[i] = state[1+2*i]<<numberBits | state[2+2*i]
		}
	case p.oneWord():
		words[0] = state[0]<<numberBits | state[1]
	default:
		copy(words, state)
	}
}

// unused reports whether nothing in a state counts now.
func (p *Plan) unused(state []int64, now int64) bool {
	if p.kind != kindAll {
		var v view
		p.look(&v, state, now, 1)
		return v.used == 0 && !v.corrected
	}
	for _, part := range p.Parts {
		size := part.size(state)
		if !part.unused(state[:size], now) {
			return false
		}
		state = state[size:]
	}
	return true
}
