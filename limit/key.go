package limit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strconv"
	"unsafe"
)

// A Key names the subject of a decision. [KeyOf] makes one of texts, for any limiter. For
// other parts, and without an allocation, [Limiter.Key] begins one, and its methods append
// to it, each returning the longer key:
//
//	k := limiter.Key(nil).Part(tenant).Part(user).Part("chat.send")
//
// What a store gets is printable ASCII, prefix:name:part:part…, in which different parts
// never make the same key:
//
//   - a byte outside letters, digits and common punctuation is written %XX, the separator
//     ':' and the wildcards of Redis among them, so that no text of a user reaches beyond
//     its part;
//   - an empty part is written %none, which no text can produce: a user called "none" or
//     "anon" is not the absence of one;
//   - a part longer than 64 bytes, once escaped, is written as %h and half of its SHA-256
//     in hexadecimal, so that the length of keys is bounded.
//
// A key made in a buffer with room allocates nothing. Keys are not kept: the buffer may be
// used again once the decision is made. The zero Key is refused.
type Key struct {
	buf     []byte
	limiter *Limiter // nil: buf is a text of KeyOf; joined: buf has several, as parts
}

// joined is the limiter of keys that KeyOf makes of several texts.
var joined = new(Limiter)

// KeyOf is the key of a subject that texts name, for any limiter or [ConcurrencyLimit]. It
// equals the key that [Limiter.Key] begins, with the texts as its parts. For one text it
// allocates nothing. Parts cannot be added to it. Without a text it is the zero Key.
func KeyOf(parts ...string) Key {
	switch len(parts) {
	case 0:
		return Key{}
	case 1:
		if parts[0] == "" {
			return Key{buf: []byte{}}
		}
		return Key{buf: unsafe.Slice(unsafe.StringData(parts[0]), len(parts[0]))} // is only read: see isText
	}
	return keyOfParts(parts)
}

func keyOfParts(parts []string) Key {
	size := 0
	for _, text := range parts {
		size += 1 + len(text)
	}
	k := Key{limiter: joined, buf: make([]byte, 0, size)} // longer if something has to be escaped
	for _, text := range parts {
		k.buf = appendPart(k.buf, text)
	}
	return k
}

// isText reports whether k is of [KeyOf], so that its bytes must not be changed.
func (k Key) isText() bool { return k.limiter == nil && k.buf != nil || k.limiter == joined }

// appendTo appends a key of [KeyOf] to the head of a limiter's keys.
func (k Key) appendTo(head []byte) []byte {
	if k.limiter == joined {
		return append(head, k.buf...)
	}
	return appendPart(head, k.buf)
}

// maxPart is the longest a part is written out.
const maxPart = 64

// Part appends a text. The empty text means that there is none.
func (k Key) Part(text string) Key {
	if k.isText() {
		return Key{}
	}
	k.buf = appendPart(k.buf, text)
	return k
}

// Int appends a number.
func (k Key) Int(n int64) Key {
	if k.isText() {
		return Key{}
	}
	k.buf = strconv.AppendInt(append(k.buf, ':'), n, 10)
	return k
}

// Addr appends an IP address. The zero Addr means that there is none: such
// subjects share one limit. Addresses are taken as they are; group them first,
// IPv6 by /64, or a single host has 2⁶⁴ limits (ingress.GroupIP).
func (k Key) Addr(addr netip.Addr) Key {
	if !addr.IsValid() || k.isText() {
		return k.Part("")
	}
	if addr.Is4() { // digits and dots, which are written as they are
		k.buf = addr.AppendTo(append(k.buf, ':'))
		return k
	}
	var text [64]byte
	k.buf = appendPart(k.buf, addr.AppendTo(text[:0]))
	return k
}

// Secret appends a text that must not be readable in a store or a log, such as
// a session id: the key has half of its SHA-256 in its place.
func (k Key) Secret(text string) Key {
	if text == "" || k.isText() {
		return k.Part("")
	}
	n := len(k.buf) + 1
	k.buf = append(append(k.buf, ':'), text...)
	k.buf = hashTail(k.buf, n, 's')
	return k
}

// Bytes is the key written so far, in the buffer it was begun in or a larger
// one.
func (k Key) Bytes() []byte { return k.buf }

// String is the key written so far.
func (k Key) String() string { return string(k.buf) }

// appendPart is where keys are joined: nothing else writes a separator and a
// text.
func appendPart[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, ':')
	if len(text) == 0 {
		return append(dst, "%none"...)
	}
	start := len(dst)
	escapes := 0
	for i := range len(text) {
		if !plain[text[i]] {
			escapes++
		}
	}
	switch {
	case len(text)+2*escapes > maxPart:
		dst = append(dst, text...)
		return hashTail(dst, start, 'h')
	case escapes == 0:
		return append(dst, text...)
	}
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		if c := text[i]; plain[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// hashTail replaces b[start:] by %, mark and half of its SHA-256. The mark is
// no hexadecimal digit, so no escaped text begins like this.
func hashTail(b []byte, start int, mark byte) []byte {
	sum := sha256.Sum256(b[start:])
	return hex.AppendEncode(append(b[:start], '%', mark), sum[:16])
}

// plain are the bytes that are written as they are.
var plain = func() (t [256]bool) {
	for c := byte('!'); c <= '~'; c++ {
		t[c] = true
	}
	for _, c := range []byte(`%:*?[]{}\"`) {
		t[c] = false
	}
	return t
}()
