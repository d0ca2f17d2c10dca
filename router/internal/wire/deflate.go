package wire

import (
	"bytes"
	"compress/flate"
	"sync"
)

// DeflateThreshold is the smallest payload worth compressing.
const DeflateThreshold = 1 << 10

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// Deflate appends the payload, compressed as one message of permessage-deflate
// without context takeover (RFC 7692, section 7.2.1), to dst. Without context
// takeover the result is the same for every connection, so that a broadcast is
// compressed once.
func Deflate(dst *bytes.Buffer, payload []byte) error {
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(dst)
	if _, err := w.Write(payload); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// A flush ends with an empty block, whose last four bytes are left out.
	dst.Truncate(dst.Len() - 4)
	return nil
}
