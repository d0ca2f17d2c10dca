package router

import (
	"bytes"
	"strconv"
	"unicode/utf16"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
)

var errSurrogate = errors.InvalidArgument.New(`frame holds half of a surrogate pair (an escape from \ud800 to \udfff without the other half), as cutting a string within a character makes it`)

// malformed explains what is wrong with a frame that the peeker has found malformed, where
// its error does not.
func malformed(frame []byte, bad error) error {
	if bad == envelope.ErrSyntax && hasLoneSurrogate(frame) {
		return errSurrogate
	}
	return bad
}

// hasLoneSurrogate looks for an escape of half a surrogate pair. encoding/json would read
// it as another character, JavaScript writes it as it is.
func hasLoneSurrogate(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || len(b)-i < 2 {
			return false
		}
		b = b[i:]
		r := escaped(b)
		switch {
		case r < 0: // an escape of two characters
			b = b[2:]
		case !utf16.IsSurrogate(r):
			b = b[6:]
		case utf16.DecodeRune(r, escaped(b[6:])) == '\uFFFD':
			return true
		default:
			b = b[12:]
		}
	}
}

// escaped reads an escape like \u00e4, -1 if there is none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
