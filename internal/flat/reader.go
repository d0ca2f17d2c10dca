package flat

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Reader reads JSON without white space from its bytes.
type Reader struct {
	Bytes []byte
	At    int // Bytes[:At] has been read
}

// Skip reads what is given, if it comes next.
func (r *Reader) Skip(what string) bool {
	if end := r.At + len(what); end <= len(r.Bytes) && string(r.Bytes[r.At:end]) == what {
		r.At = end
		return true
	}
	return false
}

// ASCII reads a string of ASCII without escapes, from behind its opening quote to behind its closing one.
func (r *Reader) ASCII() (text []byte, ok bool) {
	start := r.At
	r.At += plain(r.Bytes[start:])
	text = r.Bytes[start:r.At:r.At]
	return text, r.Skip(`"`)
}

// text reads a string without escapes, with its quotes.
func (r *Reader) text() (text []byte, ok bool) {
	if !r.Skip(`"`) {
		return nil, false
	}
	start := r.At
	r.At += plain(r.Bytes[start:])
	ascii := r.At
	for r.At < len(r.Bytes) && !ends(r.Bytes[r.At]) {
		r.At++
	}
	text = r.Bytes[start:r.At]
	return text, (r.At == ascii || utf8.Valid(text)) && r.Skip(`"`)
}

// maxDigits is how many digits an int64 holds whatever they are.
const maxDigits = 18

// Digits reads a whole number that is not negative.
func (r *Reader) Digits() (n int64, ok bool) {
	start := r.At
	for r.At < len(r.Bytes) && r.Bytes[r.At]-'0' <= 9 {
		n = n*10 + int64(r.Bytes[r.At]-'0')
		r.At++
	}
	digits := r.At - start
	return n, digits > 0 && digits <= maxDigits && (digits == 1 || r.Bytes[start] != '0')
}

// plain counts the bytes of b up to the first that is a quote, a backslash, a control character, or no ASCII.
func plain(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		if found := special(binary.LittleEndian.Uint64(b[n:])); found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(b) && b[n] < utf8.RuneSelf && !ends(b[n]) {
		n++
	}
	return n
}

func ends(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// special marks in eight bytes those at which plain ends. The lowest bit that is set belongs to the first of them;
// those above it may be wrong, because a subtraction carries out of the byte that it finds.
func special(x uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := x^('"'*ones), x^('\\'*ones) // 0 where there is one
	return ((quote - ones) | (backslash - ones) | (x - ' '*ones) | x) & high
}
