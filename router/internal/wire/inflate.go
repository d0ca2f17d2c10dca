package wire

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// What is wrong with a compressed message.
var (
	errDeflate  = errors.New("wire: a compressed message that is not valid DEFLATE data")
	errTooLarge = errors.New("wire: a compressed message larger than allowed")
)

// inflater decompresses messages of permessage-deflate, each by itself. It works from
// one slice into another: unlike compress/flate, which inflates 32 KiB at a time and
// hands out copies, it costs what the compressed bytes cost to read and the others to
// be copied, and needs no memory of its own but its tables.
type inflater struct {
	literals, distances huffman
	lengths             [maxLiterals + maxDistances]uint8

	in   []byte
	at   int    // in[:at], and the tail of the message, has been taken into acc
	acc  uint64 // bits that were read, the next one lowest; above them may be the same that follow in in
	held uint   // how many
}

const (
	maxLiterals  = 288
	maxDistances = 32
	maxBits      = 15
	fastBits     = 9
	maxMatch     = 258
)

// messageTail is what the sender has left out at the end of a message (RFC 7692,
// section 7.2.1).
var messageTail = [...]byte{0x00, 0x00, 0xFF, 0xFF}

// huffman decodes symbols of a canonical code (RFC 1951, section 3.2.2).
type huffman struct {
	// fast holds, up to mask, symbol<<4 | length for what begins with a code of at most
	// fastBits bits; 0: a longer code, or none. The mask is as short as the codes allow:
	// of a short message, filling the table is most of the work.
	fast    [1 << fastBits]uint16
	mask    uint64
	count   [maxBits + 1]uint16 // of the codes of each length
	symbols [maxLiterals]uint16 // in the order of their codes
}

// build makes the tables for codes of the given lengths. It reports whether they are
// a code, which is complete, or has a single symbol of one bit, or none: a block
// without matches needs no distances.
func (h *huffman) build(lengths []uint8) bool {
	h.count = [maxBits + 1]uint16{}
	for _, n := range lengths {
		h.count[n]++
	}
	h.count[0] = 0
	var first, offset [maxBits + 2]uint16 // code and index of the first symbol of a length
	left, codes, longest := 1, 0, 1
	for n := 1; n <= maxBits; n++ {
		left = left<<1 - int(h.count[n])
		if left < 0 {
			return false
		}
		if h.count[n] > 0 {
			codes += int(h.count[n])
			longest = n
		}
		first[n+1] = (first[n] + h.count[n]) << 1
		offset[n+1] = offset[n] + h.count[n]
	}
	if left > 0 && codes > 0 && !(codes == 1 && h.count[1] == 1) {
		return false
	}
	fast := h.fast[:1<<min(longest, fastBits)]
	h.mask = uint64(len(fast) - 1)
	clear(fast)
	for symbol, n := range lengths {
		if n == 0 {
			continue
		}
		h.symbols[offset[n]] = uint16(symbol)
		offset[n]++
		if n <= fastBits {
			for i := int(bits.Reverse16(first[n]) >> (16 - n)); i < len(fast); i += 1 << n {
				fast[i] = uint16(symbol)<<4 | uint16(n)
			}
		}
		first[n]++
	}
	return true
}

// slow decodes a symbol bit by bit. It returns its length, 0 if there is none.
func (h *huffman) slow(acc uint64) (symbol, length uint) {
	code, first, index := 0, 0, 0
	for n := uint(1); n <= maxBits; n++ {
		code |= int(acc & 1)
		acc >>= 1
		count := int(h.count[n])
		if code-count < first {
			return uint(h.symbols[index+code-first]), n
		}
		index += count
		first = (first + count) << 1
		code <<= 1
	}
	return 0, 0
}

// fixed are the codes of blocks without codes of their own (RFC 1951, section 3.2.6).
var fixed = func() (f struct{ literals, distances huffman }) {
	var n [maxLiterals]uint8
	for i := range n {
		switch {
		case i < 144, i >= 280:
			n[i] = 8
		case i < 256:
			n[i] = 9
		default:
			n[i] = 7
		}
	}
	f.literals.build(n[:])
	for i := range maxDistances {
		n[i] = 5
	}
	f.distances.build(n[:maxDistances])
	return f
}()

// extra says what a length or a distance symbol stands for.
type extra struct {
	base uint16
	bits uint8
}

var lengthExtra = [29]extra{
	{3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}, {9, 0}, {10, 0}, {11, 1}, {13, 1}, {15, 1}, {17, 1}, {19, 2}, {23, 2}, {27, 2},
	{31, 2}, {35, 3}, {43, 3}, {51, 3}, {59, 3}, {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0},
}

var distanceExtra = [30]extra{
	{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 1}, {7, 1}, {9, 2}, {13, 2}, {17, 3}, {25, 3}, {33, 4}, {49, 4}, {65, 5}, {97, 5}, {129, 6}, {193, 6},
	{257, 7}, {385, 7}, {513, 8}, {769, 8}, {1025, 9}, {1537, 9}, {2049, 10}, {3073, 10}, {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13},
}

// inflate decompresses a message into out, in place of what is there. It fails with
// errDeflate, or with errTooLarge and the first limit bytes of the message in out.
func (f *inflater) inflate(out *buffer, in []byte, limit int) error {
	f.in, f.at, f.acc, f.held = in, 0, 0, 0
	out.b = out.b[:0]
	defer func() { f.in = nil }()
	for {
		if f.atEnd() {
			return nil
		}
		if !f.need(3) {
			return errDeflate
		}
		final := f.take(1) == 1
		var err error
		switch f.take(2) {
		case 0:
			err = f.stored(out, limit)
		case 1:
			err = f.block(out, limit, &fixed.literals, &fixed.distances)
		case 2:
			if !f.dynamic() {
				return errDeflate
			}
			err = f.block(out, limit, &f.literals, &f.distances)
		default:
			err = errDeflate
		}
		if err != nil || final {
			return err
		}
	}
}

// atEnd reports whether nothing is left of the message and its tail.
func (f *inflater) atEnd() bool { return f.held == 0 && f.at == len(f.in)+len(messageTail) }

// fill takes bytes in until more than 48 bits are held, or none are left.
func (f *inflater) fill() {
	if f.at+8 <= len(f.in) {
		f.acc |= binary.LittleEndian.Uint64(f.in[f.at:]) << f.held
		n := (63 - f.held) / 8
		f.at += int(n)
		f.held += n * 8
		return
	}
	for f.held <= 48 {
		var c byte
		switch n := len(f.in); {
		case f.at < n:
			c = f.in[f.at]
		case f.at < n+len(messageTail):
			c = messageTail[f.at-n]
		default:
			return
		}
		f.acc |= uint64(c) << f.held
		f.at++
		f.held += 8
	}
}

// need reports whether n bits, at most 48, are to be had.
func (f *inflater) need(n uint) bool {
	if f.held < n {
		f.fill()
	}
	return f.held >= n
}

// take takes n bits that are held.
func (f *inflater) take(n uint) uint {
	v := uint(f.acc & (1<<n - 1))
	f.drop(n)
	return v
}

func (f *inflater) drop(n uint) {
	f.acc >>= n
	f.held -= n
}

// stored copies a block that is not compressed.
func (f *inflater) stored(out *buffer, limit int) error {
	f.drop(f.held % 8)
	if !f.need(32) {
		return errDeflate
	}
	n := f.take(16)
	if f.take(16) != n^0xFFFF {
		return errDeflate
	}
	// The bytes that are held go back.
	f.at -= int(f.held / 8)
	f.acc, f.held = 0, 0
	for n > 0 {
		var from []byte
		if f.at < len(f.in) {
			from = f.in[f.at:]
		} else {
			from = messageTail[min(f.at-len(f.in), len(messageTail)):]
		}
		from = from[:min(uint(len(from)), n)]
		if len(from) == 0 {
			return errDeflate
		}
		if !out.add(from, limit) {
			return errTooLarge
		}
		f.at += len(from)
		n -= uint(len(from))
	}
	return nil
}

var codeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads the codes of a block.
func (f *inflater) dynamic() bool {
	if !f.need(14) {
		return false
	}
	literals, distances, codes := f.take(5)+257, f.take(5)+1, f.take(4)+4
	if literals > 286 || distances > 30 {
		return false
	}
	n := [19]uint8{}
	for i := range codes {
		if !f.need(3) {
			return false
		}
		n[codeOrder[i]] = uint8(f.take(3))
	}
	h := &f.literals // its own code comes after this one's last use
	if !h.build(n[:]) {
		return false
	}
	total := literals + distances
	for i := uint(0); i < total; {
		symbol, ok := f.symbol(h)
		switch {
		case !ok:
			return false
		case symbol < 16:
			f.lengths[i] = uint8(symbol)
			i++
			continue
		}
		width, repeat, length := uint(2), uint(3), uint8(0)
		switch symbol {
		case 16:
			if i == 0 {
				return false
			}
			length = f.lengths[i-1]
		case 17:
			width = 3
		default:
			width, repeat = 7, 11
		}
		if !f.need(width) {
			return false
		}
		repeat += f.take(width)
		if i+repeat > total {
			return false
		}
		for range repeat {
			f.lengths[i] = length
			i++
		}
	}
	return f.literals.build(f.lengths[:literals]) && f.distances.build(f.lengths[literals:total])
}

// symbol decodes one symbol.
func (f *inflater) symbol(h *huffman) (uint, bool) {
	if f.held < maxBits {
		f.fill()
	}
	e := uint(h.fast[f.acc&h.mask&(1<<fastBits-1)]) // the constant spares the bounds check
	symbol, n := e>>4, e&15
	if n == 0 {
		symbol, n = h.slow(f.acc)
	}
	if n == 0 || n > f.held {
		return 0, false
	}
	f.drop(n)
	return symbol, true
}

// block inflates up to the end of a block.
func (f *inflater) block(out *buffer, limit int, literals, distances *huffman) error {
	b := out.b
	defer func() { out.b = b }()
	for {
		if cap(b)-len(b) < maxMatch {
			out.b = b
			out.grow(len(b)+maxMatch, limit)
			b = out.b
		}
		symbol, ok := f.symbol(literals)
		switch {
		case !ok:
			return errDeflate
		case symbol < 256:
			if len(b) == limit {
				return errTooLarge
			}
			b = append(b, byte(symbol))
			continue
		case symbol == 256:
			return nil
		case symbol > 285:
			return errDeflate
		}
		x := lengthExtra[symbol-257]
		if !f.need(uint(x.bits)) {
			return errDeflate
		}
		length := int(x.base) + int(f.take(uint(x.bits)))
		if symbol, ok = f.symbol(distances); !ok || symbol > 29 {
			return errDeflate
		}
		x = distanceExtra[symbol]
		if !f.need(uint(x.bits)) {
			return errDeflate
		}
		distance := int(x.base) + int(f.take(uint(x.bits)))
		if distance > len(b) {
			return errDeflate
		}
		tooLarge := len(b)+length > limit
		if tooLarge {
			length = limit - len(b)
		}
		// Where the two overlap, what has been copied is copied again.
		from, to := len(b)-distance, len(b)
		b = b[:to+length]
		for to < len(b) {
			to += copy(b[to:], b[from:to])
		}
		if tooLarge {
			return errTooLarge
		}
	}
}
