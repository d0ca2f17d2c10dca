package table

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// A lane is a 64-bit hash with its own secrets. It is wyhash
// (github.com/wangyi-fudan/wyhash), which the Go runtime uses for its maps where
// there is no AES: blocks of 16 bytes are multiplied to 128 bits, and the two halves
// are folded. Without the secrets an attacker cannot find keys that collide.
type lane struct{ seed, block, length uint64 }

// secrets are two lanes, computed together: one pass over a key gives 128 bits
// in less time than one call of hash/maphash takes for 64.
type secrets [2]lane

func newSecrets() (s secrets) {
	var random [48]byte
	_, _ = rand.Read(random[:]) // never fails
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(random[8*i:]) }
	return secrets{{word(0), word(1), word(2)}, {word(3), word(4), word(5)}}
}

// mix folds the product of two words.
func mix(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

func (s *secrets) hashString(key string) Hash {
	return s.hash(unsafe.Slice(unsafe.StringData(key), len(key)))
}

func (s *secrets) hash(key []byte) Hash {
	a, b := s[0].seed, s[1].seed
	n := uint64(len(key))
	var x, y uint64
	switch {
	case len(key) > 16:
		for rest := key; len(rest) > 16; rest = rest[16:] {
			x, y = binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
			a, b = mix(x^s[0].block, y^a), mix(x^s[1].block, y^b)
		}
		end := key[len(key)-16:] // may overlap the last block
		x, y = binary.LittleEndian.Uint64(end), binary.LittleEndian.Uint64(end[8:])
	case len(key) >= 8:
		x, y = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[len(key)-8:])
	case len(key) >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[len(key)-4:]))
	case len(key) > 0:
		x = uint64(key[0]) | uint64(key[len(key)/2])<<8 | uint64(key[len(key)-1])<<16
	}
	return Hash{
		mix(s[0].length^n, mix(x^s[0].block, y^a)),
		mix(s[1].length^n, mix(x^s[1].block, y^b)),
	}
}
