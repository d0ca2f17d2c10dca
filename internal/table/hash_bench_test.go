package table

import (
	"hash/maphash"
	"testing"
)

// BenchmarkHash compares the hash of a key with hash/maphash for as many bits.
func BenchmarkHash(b *testing.B) {
	for _, key := range []string{"user:00000000", "wskit:chat:u:acme:ann:chat.send"} {
		s := newSecrets()
		b.Run(key, func(b *testing.B) {
			for b.Loop() {
				s.hashString(key)
			}
		})
		x, y := maphash.MakeSeed(), maphash.MakeSeed()
		b.Run(key+"/maphash", func(b *testing.B) {
			for b.Loop() {
				maphash.String(x, key)
				maphash.String(y, key)
			}
		})
	}
}
